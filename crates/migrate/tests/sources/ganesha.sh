# Debian's NFS-Ganesha, as the first process of a mount and process namespace: it starts and kills the server as its input says, and ends with it.
set -e
ip link set lo up
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib/nfs
mkdir -p /run/ganesha /run/rpcbind /var/lib/nfs/ganesha
rpcbind -w
echo ready
while read word; do
    case $word in
    start)
        ganesha.nfsd -F -f "$1/ganesha.conf" -L "$1/log" -p /run/ganesha.pid &
        server=$!
        until rpcinfo -t 127.0.0.1 100003 3 && rpcinfo -t 127.0.0.1 100005 3; do
            sleep 0.02
            kill -0 $server
        done >/dev/null 2>&1 ;;
    kill) kill -9 $server; wait $server 2>/dev/null || true ;;
    stop)
        kill -STOP $server
        # Threads stop one after the other.
        while grep -L '^State:.T' /proc/$server/task/*/status | grep -q .; do sleep 0.01; done ;;
    continue) kill -CONT $server ;;
    esac
    echo done
done
