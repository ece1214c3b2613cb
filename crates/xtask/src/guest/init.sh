#!/bin/sh
# The first process of a guest: loads modules, and does what the kernel's command line asks for with `task=`, which is a script
# in /tasks. What it says on the console, each on a line after `GUEST`, is for the test that started it.
busybox=/bin/busybox
$busybox mount -t proc proc /proc
$busybox mount -t sysfs sys /sys
$busybox mount -t devtmpfs dev /dev
$busybox mount -t tmpfs tmp /tmp
for list in /modules/*.order; do
    while read -r module; do
        # One that two lists have is loaded by the first.
        [ -d "/sys/module/$module" ] || $busybox insmod "/modules/$module.ko" || echo "GUEST no module $module"
    done < "$list"
done
for word in $($busybox cat /proc/cmdline); do
    case $word in
    task=*) task=${word#task=} ;;
    esac
done

# Ends the machine.
end() {
    echo "GUEST over"
    $busybox sync
    $busybox poweroff -f
}

# Mounts the file system of the tag `log`.
mount_log() {
    if ! $busybox mount -t virtiofs log /log; then
        echo "GUEST no file system"
        end
    fi
    echo "GUEST ready"
}

. "/tasks/$task"
end
