#!/bin/sh
# Gives cluster A a topic and a group that has read a part of it, starts both connectors, and ends when the group could
# fail over. `docker compose up` runs it each time: what is there already stays as it is.
set -eu

: "${KAFKA_BIN:?}" "${SOURCE_BOOTSTRAP:?}" "${CONNECT_URL:?}" "${SERVICE_URL:?}" "${KEYS:?}"
topic=orders group=billing
here=$(dirname "$0")
answer=$(mktemp) header=$(mktemp)
trap 'rm -f "$answer" "$header"' EXIT
printf 'Authorization: Bearer %s\n' "$(cat "$KEYS/token")" > "$header"

kafka() {
    tool=$1
    shift
    "$KAFKA_BIN/$tool.sh" --bootstrap-server "$SOURCE_BOOTSTRAP" "$@"
}

# Prints the HTTP status, 000 when nobody answers; the body is in $answer.
http() {
    curl --silent --noproxy '*' --max-time 60 --output "$answer" --write-out '%{http_code}' "$@" || true
}

service() {
    http --cacert "$KEYS/cert.pem" --header @"$header" "$SERVICE_URL$1"
}

put() {
    for _ in $(seq 60); do
        status=$(http --request PUT --header 'Content-Type: application/json' --data @"$here/$1.json" \
            "$CONNECT_URL/connectors/$1/config")
        case $status in
            200 | 201) return ;;
            409) sleep 1 ;; # Connect rebalances, as it does when the connector before has just been made
            *) break ;;
        esac
    done
    echo "Connect does not take $1.json: HTTP $status $(cat "$answer")" >&2
    exit 1
}

groups=$(kafka kafka-consumer-groups --list)
if echo "$groups" | grep -qx "$group"; then
    echo "A has the group $group already."
else
    echo "A gets 1,000 orders; its retention takes the first 200, and $group reads on up to order 600."
    kafka kafka-topics --create --if-not-exists --topic "$topic" --partitions 1 --replication-factor 1
    seq 1000 | sed 's/^/order /' | kafka kafka-console-producer --topic "$topic"
    printf '{"version": 1, "partitions": [{"topic": "%s", "partition": 0, "offset": 200}]}' "$topic" > "$answer"
    kafka kafka-delete-records --offset-json-file "$answer"
    kafka kafka-console-consumer --topic "$topic" --group "$group" --from-beginning --max-messages 400 > /dev/null
fi

put source
put group-offsets
echo "Connect has both connectors. Waiting until $group could fail over to B at the exact record:"
for _ in $(seq 180); do
    # Before all is copied it is safe already, and bounded: it would read twice what is still to come.
    status=$(service "/v1/groups?ready=true&verdict=exact")
    if [ "$status" = 200 ] && grep -q "\"group\":\"$group\"" "$answer"; then
        cat "$answer"
        echo
        exit 0
    fi
    sleep 1
done
service /health > /dev/null
echo "It can't yet. What the service says of itself: $(cat "$answer")" >&2
exit 1
