"""What a model is on the disk: its folder, the seal, the compiled engine, and what it knows of texts unlike its own."""
