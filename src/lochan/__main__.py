"""`python -m lochan` runs the same commands as `lochan`."""

from lochan.cli.main import main

if __name__ == "__main__":
    main()
