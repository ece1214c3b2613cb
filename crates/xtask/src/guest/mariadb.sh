# MariaDB, with its data on the disk /dev/vda and its log on the file system of the tag `log`. Each row is told when the server has
# acknowledged it.
mount_log
$busybox mkdir -p /data /run
if ! $busybox mount -t ext4 /dev/vda /data; then
    echo "GUEST no disk"
    end
fi
$busybox ip link set lo up
$busybox mkdir -p /data/db
socket=/tmp/mariadb.sock
/usr/sbin/mariadbd --no-defaults --user=root --datadir=/data/db --innodb-log-group-home-dir=/log --tmpdir=/tmp \
    --innodb-log-file-size=8M --innodb-buffer-pool-size=16M --innodb-use-native-aio=0 --skip-grant-tables --skip-networking \
    --socket=$socket --lc-messages-dir=/usr/share/mysql --character-sets-dir=/usr/share/mysql/charsets \
    > /tmp/mariadb.log 2>&1 &
sql() {
    /usr/bin/mariadb --no-defaults --socket=$socket --skip-column-names --batch --unbuffered "$@"
}
until sql -e 'SELECT 1' > /dev/null 2>&1; do
    if ! $busybox pidof mariadbd > /dev/null; then
        $busybox sed 's/^/GUEST failed /' /tmp/mariadb.log
        end
    fi
    $busybox sleep 1
done
$busybox sed -n 's/^.*\(InnoDB: Starting crash recovery.*\)$/GUEST recovery \1/p' /tmp/mariadb.log
sql -e 'CREATE DATABASE IF NOT EXISTS t; CREATE TABLE IF NOT EXISTS t.r (n BIGINT PRIMARY KEY, v VARCHAR(100)) ENGINE=InnoDB'
echo "GUEST serves $(sql -e "SELECT CONCAT_WS(' ', COUNT(*), COALESCE(MAX(n), 0), COALESCE(SUM(v = REPEAT(CHAR(65 + n % 26), 100)), 0)) FROM t.r")"
number=$(sql -e 'SELECT COALESCE(MAX(n), 0) FROM t.r')
# One client, whose statements come one after the other.
while :; do
    number=$((number + 1))
    echo "INSERT INTO r VALUES ($number, REPEAT(CHAR(65 + $number % 26), 100)); SELECT CONCAT('GUEST durable ', $number);"
done | sql t
