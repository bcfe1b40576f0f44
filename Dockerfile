# The command featherlane in a slim image: docker run --rm featherlane bench iiwa14
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY featherlane featherlane
RUN pip wheel --no-cache-dir --wheel-dir /wheels .

FROM python:3.12-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --no-index /wheels/*.whl \
    && rm -r /wheels \
    && useradd --create-home --uid 1000 robot \
    && install --directory --owner=robot --group=robot --mode=700 /home/robot/.cache
USER 1000
WORKDIR /home/robot
ENTRYPOINT ["featherlane"]
CMD ["bench", "iiwa14"]
