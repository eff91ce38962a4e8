# Images of libmeg:
#
#   docker build --target tools -t libmeg .           the programs that need no LibTorch, with pyarrow for Parquet
#   docker build --target train -t libmeg-train .     these and the ones that train and run models, with LibTorch (9 GB)
#
#   docker run --rm -v "$PWD:/data" -w /data libmeg meg preprocess-data --input my.jsonl ...
#   docker run --rm --gpus all -v "$PWD:/data" -w /data libmeg-train pretrain_gpt ...

FROM debian:12 AS build-tools
COPY . /src
WORKDIR /src
RUN MEG_WITH_TORCH=OFF scripts/setup.sh --packages \
    && MEG_WITH_TORCH=OFF scripts/build_packages.sh

# The toolkit of CUDA's image runs on Debian as well.
FROM nvidia/cuda:13.0.2-devel-ubuntu22.04 AS cuda

FROM debian:12 AS build-train
COPY --from=cuda /usr/local/cuda-13.0 /usr/local/cuda-13.0
RUN ln -s cuda-13.0 /usr/local/cuda
COPY . /src
WORKDIR /src
RUN scripts/setup.sh --packages \
    && scripts/build_packages.sh

# Programs find pyarrow and torch in the environment of the first python3 in PATH.
FROM debian:12-slim AS tools
ENV PATH=/opt/python/bin:$PATH
COPY scripts/requirements.txt scripts/requirements-torch.txt /tmp/
COPY --from=build-tools /src/build/packages/artifacts /tmp/artifacts
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates python3-venv \
        /tmp/artifacts/libmeg-tools_*.deb \
    && rm -rf /var/lib/apt/lists/* /tmp/artifacts \
    && python3 -m venv /opt/python \
    && pip install --no-cache-dir --constraint /tmp/requirements.txt pyarrow
CMD ["meg", "--help"]

FROM tools AS train
COPY --from=build-train /src/build/packages/artifacts /tmp/artifacts
RUN apt-get update && apt-get install -y --no-install-recommends --reinstall \
        /tmp/artifacts/libmeg-tools_*.deb /tmp/artifacts/libmeg-train_*.deb \
    && rm -rf /var/lib/apt/lists/* /tmp/artifacts \
    && pip install --no-cache-dir --constraint /tmp/requirements-torch.txt torch
