"""`python -m tpufn_cli`."""

from tpufn_cli.app import main

if __name__ == "__main__":
    main()
