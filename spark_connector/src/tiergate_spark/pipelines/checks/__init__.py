"""What is checked of stored segments, one kind of thing per module; plain Python, to run wherever it is sent."""
