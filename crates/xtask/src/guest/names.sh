# What servers do with the names of their logs.
mount_log
$busybox mkdir /log/folder &&
    echo one > /log/folder/new &&
    $busybox mv /log/folder/new /log/folder/one &&
    $busybox truncate -s 1048576 /log/folder/long &&
    echo two > /log/two &&
    $busybox rm /log/two &&
    $busybox sync -d /log/folder/one /log/folder/long &&
    echo "GUEST listed $(cd /log && $busybox find . | $busybox sort | $busybox tr '\n' ' ')" &&
    echo "GUEST length $($busybox stat -c %s /log/folder/long)"
