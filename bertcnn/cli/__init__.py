"""The commands; each only parses options and calls a public function."""
