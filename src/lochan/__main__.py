"""`python -m lochan` is the same door as `lochan`."""

from lochan.cli.main import main

if __name__ == "__main__":
    main()
