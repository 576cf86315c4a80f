"""The functions: for each, how its snapshot is loaded and which pure decision follows."""
