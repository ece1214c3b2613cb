# The program of a test, on a host whose network is RDMA in software. `RDMA_ADDRESS` of the command line is the host's address.
# Which libfabric takes, and Debian chooses between two of them when the package is installed.
$busybox ln -s /usr/lib/libpsm1/libpsm_infinipath.so.1.* /usr/lib/x86_64-linux-gnu/libpsm_infinipath.so.1
$busybox ip link set lo up
$busybox ip addr add "$RDMA_ADDRESS/24" dev eth0
$busybox ip link set eth0 up
if ! /usr/bin/rdma link add rxe0 type rxe netdev eth0; then
    echo "GUEST no RDMA"
    end
fi
echo "GUEST link $(/usr/bin/rdma link show rxe0/1)"
/bin/program --exact the_program_of_a_guest --nocapture
counters=/sys/class/infiniband/rxe0/ports/1/hw_counters
for counter in sent_pkts rcvd_pkts; do
    echo "GUEST counter $counter $($busybox cat $counters/$counter)"
done
