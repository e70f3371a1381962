"`python -m sql_env` is the `sql_env` command."

from sql_env.cli import main

if __name__ == "__main__":
    main()
