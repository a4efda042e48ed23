"""`python -m bertcnn`: the command `bertcnn`."""

from bertcnn.cli.start import main

if __name__ == "__main__":
    main()
