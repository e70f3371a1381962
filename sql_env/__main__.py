"""`python -m sql_env` is the command `sql_env`; launchers that start several processes need a module."""
from sql_env.cli import main

if __name__ == "__main__": main()
