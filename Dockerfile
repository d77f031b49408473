# syntax=docker/dockerfile:1
FROM python:3.12-slim AS wheels
WORKDIR /build
COPY constraints.txt ./
COPY protos protos
COPY client/python client/python
COPY server server
# As variables they also hold for what builds the wheels: the first one for older releases of pip, the second for newer.
ENV PIP_CONSTRAINT=/build/constraints.txt PIP_BUILD_CONSTRAINT=/build/constraints.txt
RUN pip wheel --no-cache-dir --wheel-dir /wheels ./protos ./client/python ./server

FROM python:3.12-slim
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels tiergate-server \
    && useradd --system --uid 10001 --home-dir /var/lib/tiergate --create-home tiergate \
    && install --directory --owner tiergate /var/cache/tiergate
USER tiergate
# What reads records is compiled here, for any processor of the architecture: one that differs would compile again.
ENV NUMBA_CACHE_DIR=/var/cache/tiergate NUMBA_CPU_NAME=generic
RUN python -m tiergate_client.records.compile_kernels
WORKDIR /var/lib/tiergate
ENV TIERGATE_DATA_DIRECTORY=/var/lib/tiergate
VOLUME /var/lib/tiergate
EXPOSE 7400 7401 7480 7481
ENTRYPOINT ["tiergate"]
CMD ["serve"]
