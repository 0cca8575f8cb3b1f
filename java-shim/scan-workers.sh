#!/bin/sh
# Scans the built archive with the plugin loaders of stock workers: of 3.9.1 and 4.3.1, or of the versions given.
set -eu
cd "$(dirname "$0")"
zip=$(ls target/mirror-bridge-connect-*.zip)
rm -rf target/plugins && mkdir target/plugins
(cd target/plugins && jar xf "../../$zip")
[ $# -gt 0 ] || set -- 3.9.1 4.3.1
for version in "$@"; do
  mvn -q -f src/test/workers/pom.xml "-Dkafka.version=$version" "-Dmdep.outputFile=$PWD/target/worker-$version.cp" \
    org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath
  echo "worker $version"
  java -cp "$(cat "target/worker-$version.cp")" src/test/workers/PluginScan.java "$PWD/target/plugins" \
    2>"target/worker-$version.log" || { cat "target/worker-$version.log"; exit 1; }
done
