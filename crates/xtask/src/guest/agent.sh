# The program of a test, as the agent of the ext4 of the disk /dev/vda, beside the port `ishigaki`.
if ! $busybox mount -t ext4 /dev/vda /log; then
    echo "GUEST failed: no disk"
    end
fi
$busybox dd if=/dev/urandom of=/log/stock bs=64k count=16 2> /dev/null
$busybox sync
for port in /sys/class/virtio-ports/*; do
    if [ "$($busybox cat "$port/name")" = ishigaki ]; then
        export ISHIGAKI_TEST_PORT="/dev/${port##*/}"
    fi
done
/bin/program --exact the_agent_of_a_guest --nocapture
