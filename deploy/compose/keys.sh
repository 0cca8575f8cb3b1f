#!/bin/sh
# Makes what the service is asked with: a token, and a certificate with its key. What is there already stays.
set -eu

: "${KEYS:?}" "${KEY_OWNER:?}"
umask 077
if [ ! -s "$KEYS/token" ]; then
    openssl rand -hex 32 > "$KEYS/new"
    chmod 644 "$KEYS/new" # the worker runs as another user; who has the volume may ask the service
    mv "$KEYS/new" "$KEYS/token"
fi
if [ ! -s "$KEYS/cert.pem" ]; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 -subj /CN=service \
        -addext subjectAltName=DNS:service,DNS:localhost,IP:127.0.0.1 -keyout "$KEYS/key.pem" -out "$KEYS/new"
    chown "$KEY_OWNER" "$KEYS/key.pem"
    chmod 644 "$KEYS/new"
    mv "$KEYS/new" "$KEYS/cert.pem"
fi
