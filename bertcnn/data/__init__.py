"""Tables in and out, columns, splits and padded batches."""
