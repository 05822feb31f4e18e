# Settle in a container. Build: docker build -t settle . Run:
#   docker run -p 5984:5984 -v settle:/data -e SETTLE_ADMINS__ADMIN=secret settle
FROM node:24-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
# Native parts come as prebuilt packages: no script of a dependency has to run. Not `npm ci`: it refuses a lock file that
# lacks optional packages of other platforms.
RUN npm install --no-save --no-audit --no-fund --ignore-scripts
COPY tsconfig.json tsconfig.build.json ./
COPY scripts scripts
COPY etc etc
COPY ui ui
COPY src src
RUN npm run build
RUN npm prune --omit=dev --ignore-scripts

FROM node:24-bookworm-slim
RUN groupadd --gid 5984 settle && useradd --uid 5984 --gid settle --no-create-home --home-dir /data --shell /usr/sbin/nologin settle && mkdir /data && chown settle:settle /data
WORKDIR /opt/settle
COPY --from=build /build/package.json ./
COPY --from=build /build/node_modules node_modules
COPY --from=build /build/etc etc
COPY --from=build /build/dist dist
COPY examples/docker/entrypoint.sh /usr/local/bin/settle-entrypoint
USER settle
VOLUME /data
EXPOSE 5984
# As long as a server takes at most to finish its requests.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["node", "-e", "fetch('http://127.0.0.1:' + (process.env.SETTLE_HTTPD__PORT || 5984) + '/_up').then((reply) => process.exit(reply.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["/bin/sh", "/usr/local/bin/settle-entrypoint"]
CMD ["--dir", "/data", "--bind", "0.0.0.0"]
