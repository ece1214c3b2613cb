# PostgreSQL, with its data on the ext4 of the disk /dev/vda, where the test has made a cluster and its tables. Each transaction is told
# when the server has acknowledged it.
# The server looks for the folder of its extensions, of which it takes none.
$busybox mkdir -p /data /etc /dev/shm /usr/lib/postgresql/15/lib
$busybox mount -t tmpfs shm /dev/shm
# An error of the disk is a failure, also where the server does not meet it.
$busybox cat /dev/kmsg | while read -r line; do
    case $line in
    *"I/O error"* | *"EXT4-fs error"* | *"EXT4-fs warning"* | *"Aborting journal"* | *"blocked for more than"*)
        echo "GUEST failed: ${line#*;}"
        ;;
    esac
done &
if ! $busybox mount -t ext4 -o errors=remount-ro /dev/vda /data; then
    echo "GUEST failed: no disk"
    end
fi
echo "GUEST mounted"
# The server refuses to run as root.
echo "postgres:x:$($busybox stat -c %u:%g /data/db)::/tmp:/bin/sh" > /etc/passwd
programs=/usr/lib/postgresql/15/bin
$busybox su postgres -c "exec $programs/postgres -D /data/db -k /tmp -c listen_addresses= -c fsync=on -c synchronous_commit=on \
    -c full_page_writes=on -c shared_buffers=4MB -c min_wal_size=2MB -c max_wal_size=8MB -c checkpoint_timeout=30s \
    -c max_connections=5 -c jit=off -c huge_pages=off -c restart_after_crash=off" > /tmp/postgresql.log 2>&1 &
sql() {
    $programs/psql -X -q -A -t -v ON_ERROR_STOP=1 -U postgres -h /tmp -d postgres "$@"
}
fail() {
    $busybox sed 's/^/GUEST failed: /' /tmp/postgresql.log
    end
}
until sql -c 'SELECT 1' > /dev/null 2>&1; do
    $busybox pidof postgres > /dev/null || fail
    $busybox sleep 1
done
$busybox sed -n 's/^.*\(automatic recovery in progress.*\)$/GUEST recovery \1/p' /tmp/postgresql.log
state=$(sql -c 'SELECT says FROM state') || fail
echo "GUEST serves $state"
number=$(sql -c 'SELECT COALESCE(MAX(n), 0) FROM r') || fail
# One client, whose transactions come one after the other; each is one message to the server.
while :; do
    number=$((number + 1))
    echo "INSERT INTO r VALUES ($number, REPEAT(CHR(65 + $number % 26), 100))\\;" \
        "UPDATE accounts SET balance = balance + $number, last = $number WHERE id = $number * 7919 % 20000;" \
        "SELECT 'GUEST durable $number';"
done | sql
fail
