# As `records`, on the ext4 of the disk /dev/vda.
mount_log() {
    if ! $busybox mount -t ext4 /dev/vda /log; then
        echo "GUEST failed: no disk"
        end
    fi
    echo "GUEST ready"
}
. /tasks/records
