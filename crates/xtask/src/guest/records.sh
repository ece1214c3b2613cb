# Records of nine bytes, one after the other, each durable before the next, for ever.
mount_log
# What the one before has left goes on.
number=$(($($busybox stat -c %s /log/records 2> /dev/null || echo 0) / 9))
while :; do
    if ! $busybox printf '%08d\n' "$number" |
        $busybox dd of=/log/records bs=9 count=1 seek="$number" conv=notrunc,fsync 2> /dev/null; then
        echo "GUEST failed $number"
        break
    fi
    echo "GUEST durable $number"
    number=$((number + 1))
done
