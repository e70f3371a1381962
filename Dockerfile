# The server, with the bundled questions:
#   docker build -t sql_env . && docker run --rm -p 8000:8000 --read-only --tmpfs /tmp --cap-drop ALL sql_env
# With Spider's development questions instead: docker build --build-arg SPIDER_URL=<address of spider_data.zip> -t sql_env .
FROM python:3.12-slim-bookworm AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
WORKDIR /src
COPY pyproject.toml settings.ini setup.py MANIFEST.in README.md LICENSE ./
COPY sql_env sql_env
# Statistics, plots and completion are of no use to a server, and a third of what the package brings
RUN python -m venv /opt/sql_env && /opt/sql_env/bin/pip install --no-cache-dir ".[server]" && \
    /opt/sql_env/bin/pip uninstall -q -y mpmath matplotlib fonttools jedi pip
ARG SPIDER_URL=""
RUN SPIDER_URL="$SPIDER_URL" SQL_ENV_CACHE=/tmp/cache /opt/sql_env/bin/python -c "\
import os; from sql_env.paths import download_file; from sql_env.questions.question_set import save_question_set; \
from sql_env.sources.loading import load; url = os.environ['SPIDER_URL']; \
found = load('spider', download_file(url, 'spider.zip'), 'dev') if url else load('bundled'); \
save_question_set(found, '/questions')"

FROM python:3.12-slim-bookworm
LABEL org.opencontainers.image.title="sql_env" org.opencontainers.image.version="0.2.0" \
    org.opencontainers.image.licenses="Apache-2.0" org.opencontainers.image.source="https://github.com/hjerpe/sql_env"
COPY --from=build /opt/sql_env /opt/sql_env
COPY --from=build /questions /questions
ENV PATH=/opt/sql_env/bin:$PATH \
    HOST=0.0.0.0 PORT=8000 SQL_ENV_SOURCE=folder SQL_ENV_PATH=/questions ENABLE_WEB_INTERFACE=true \
    GRADIO_ANALYTICS_ENABLED=False GRADIO_TEMP_DIR=/tmp/gradio HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 MALLOC_ARENA_MAX=2
WORKDIR /tmp
USER 65532:65532
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
CMD ["python", "-m", "sql_env.server.app"]
