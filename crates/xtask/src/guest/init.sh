#!/bin/sh
# The first process of a guest: loads modules, mounts the file system of the tag `log`, and does what the kernel's command
# line asks for with `task=`. What it says on the console, each on a line, is for the test that started it.
busybox=/bin/busybox
$busybox mount -t proc proc /proc
$busybox mount -t sysfs sys /sys
$busybox mount -t devtmpfs dev /dev
while read -r module; do
    $busybox insmod "/modules/$module.ko" || echo "GUEST no module $module"
done < /modules/order
if ! $busybox mount -t virtiofs log /log; then
    echo "GUEST no file system"
    $busybox poweroff -f
fi
echo "GUEST ready"

for word in $($busybox cat /proc/cmdline); do
    case $word in
    task=*) task=${word#task=} ;;
    esac
done

# Records of nine bytes, one after the other, each durable before the next, for ever.
records() {
    # What the one before has left goes on.
    number=$(($($busybox stat -c %s /log/records 2> /dev/null || echo 0) / 9))
    while :; do
        if ! $busybox printf '%08d\n' "$number" |
            $busybox dd of=/log/records bs=9 count=1 seek="$number" conv=notrunc,fsync 2> /dev/null; then
            echo "GUEST failed $number"
            return
        fi
        echo "GUEST durable $number"
        number=$((number + 1))
    done
}

# What servers do with the names of their logs.
names() {
    $busybox mkdir /log/folder &&
        echo one > /log/folder/new &&
        $busybox mv /log/folder/new /log/folder/one &&
        $busybox truncate -s 1048576 /log/folder/long &&
        echo two > /log/two &&
        $busybox rm /log/two &&
        $busybox sync -d /log/folder/one /log/folder/long &&
        echo "GUEST listed $(cd /log && $busybox find . | $busybox sort | $busybox tr '\n' ' ')" &&
        echo "GUEST length $($busybox stat -c %s /log/folder/long)"
}

$task
echo "GUEST over"
$busybox sync
$busybox poweroff -f
