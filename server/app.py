"Where OpenEnv's tools look for a server; the server itself is `sql_env.server.app`."

from sql_env.server import app as _module


def __getattr__(name):
    return getattr(_module, name)


def main():
    _module.main()


if __name__ == "__main__":
    main()
