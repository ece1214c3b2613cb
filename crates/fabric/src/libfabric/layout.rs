//! The structures and tables of functions of libfabric that are used, after `rdma/*.h` of version 1.17.
//!
//! Only a handful of functions are symbols of the library; all others are found in tables that hang on its objects. A table
//! is declared up to the last function that is used: what follows is never looked at, and later versions only add behind.
//! Functions that are not called are words without a type.

use std::ffi::{c_char, c_int, c_void};

/// `FI_MSG` and `FI_RMA` among the capabilities.
pub(super) const MESSAGES: u64 = 1 << 1;
pub(super) const ONE_SIDED: u64 = 1 << 2;

/// What an operation or an endpoint's side is for: `FI_WRITE`, `FI_RECV`, `FI_TRANSMIT` (and `FI_SEND`), `FI_REMOTE_WRITE`.
pub(super) const WRITE: u64 = 1 << 9;
pub(super) const RECEIVE: u64 = 1 << 10;
pub(super) const TRANSMIT: u64 = 1 << 11;
pub(super) const REMOTE_WRITE: u64 = 1 << 13;

/// `FI_REMOTE_CQ_DATA`: a completion is that of a peer's write, with its number.
pub(super) const REMOTE_DATA: u64 = 1 << 17;

/// `FI_SOURCE`: the node that is given to `fi_getinfo` is our own.
pub(super) const SOURCE: u64 = 1 << 57;

/// `FI_CONTEXT` and `FI_CONTEXT2`: operations come with memory for the provider's own use.
pub(super) const CONTEXTS: u64 = 1 << 59 | 1 << 52;

/// `FI_ORDER_SAS`: messages arrive in the order in which they were sent.
pub(super) const MESSAGES_IN_ORDER: u64 = 1 << 8;

/// `FI_MR_BASIC`, which stands for `FI_MR_VIRT_ADDR`, `FI_MR_ALLOCATED` and `FI_MR_PROV_KEY`, and these and `FI_MR_LOCAL`.
pub(super) const BASIC: c_int = 1 << 0;
pub(super) const LOCAL: c_int = 1 << 2;
pub(super) const VIRTUAL: c_int = 1 << 4;
pub(super) const ALLOCATED: c_int = 1 << 5;
pub(super) const PROVIDER_KEY: c_int = 1 << 6;

/// `FI_EP_RDM`.
pub(super) const RELIABLE: c_int = 3;

/// `FI_THREAD_SAFE`. Calls about one domain come one at a time, but providers have threads of their own, and not all of them
/// keep these out when they are told so.
pub(super) const ANY_THREAD: c_int = 1;

/// `FI_AV_TABLE`.
pub(super) const TABLE: c_int = 2;

/// `FI_CQ_FORMAT_DATA`, `FI_WAIT_NONE`, `FI_WAIT_FD`.
pub(super) const WITH_DATA: c_int = 3;
pub(super) const NO_WAIT: c_int = 0;
pub(super) const WAIT_BY_DESCRIPTOR: c_int = 3;

/// The commands `FI_GETWAIT` and `FI_ENABLE`, which are counted behind a few others.
pub(super) const GET_WAIT: c_int = 5;
pub(super) const ENABLE: c_int = 6;

/// `FI_EAGAIN` and `FI_EAVAIL`, as functions return them.
pub(super) const AGAIN: isize = -11;
pub(super) const ERROR_THERE: isize = -259;

/// A function that is not called here.
type Unused = *const c_void;

/// `struct fi_info`.
#[repr(C)]
pub(super) struct Info {
    pub(super) next: *mut Info,
    pub(super) caps: u64,
    pub(super) mode: u64,
    pub(super) addr_format: u32,
    pub(super) src_addrlen: usize,
    pub(super) dest_addrlen: usize,
    pub(super) src_addr: *mut c_void,
    pub(super) dest_addr: *mut c_void,
    pub(super) handle: *mut c_void,
    pub(super) tx_attr: *mut TransmitAttributes,
    pub(super) rx_attr: *mut ReceiveAttributes,
    pub(super) ep_attr: *mut EndpointAttributes,
    pub(super) domain_attr: *mut DomainAttributes,
    pub(super) fabric_attr: *mut FabricAttributes,
    pub(super) nic: *mut c_void,
}

/// The beginning of `struct fi_tx_attr`.
#[repr(C)]
pub(super) struct TransmitAttributes {
    pub(super) caps: u64,
    pub(super) mode: u64,
    pub(super) op_flags: u64,
    pub(super) msg_order: u64,
    pub(super) comp_order: u64,
    pub(super) inject_size: usize,
    pub(super) size: usize,
}

/// The beginning of `struct fi_rx_attr`.
#[repr(C)]
pub(super) struct ReceiveAttributes {
    pub(super) caps: u64,
    pub(super) mode: u64,
    pub(super) op_flags: u64,
    pub(super) msg_order: u64,
}

/// The beginning of `struct fi_ep_attr`.
#[repr(C)]
pub(super) struct EndpointAttributes {
    pub(super) kind: c_int,
    pub(super) protocol: u32,
    pub(super) protocol_version: u32,
    pub(super) max_msg_size: usize,
}

/// The beginning of `struct fi_domain_attr`.
#[repr(C)]
pub(super) struct DomainAttributes {
    pub(super) domain: *mut c_void,
    pub(super) name: *const c_char,
    pub(super) threading: c_int,
    pub(super) control_progress: c_int,
    pub(super) data_progress: c_int,
    pub(super) resource_mgmt: c_int,
    pub(super) av_type: c_int,
    pub(super) mr_mode: c_int,
    pub(super) mr_key_size: usize,
    pub(super) cq_data_size: usize,
}

/// `struct fi_fabric_attr`.
#[repr(C)]
pub(super) struct FabricAttributes {
    pub(super) fabric: *mut c_void,
    pub(super) name: *const c_char,
    pub(super) prov_name: *const c_char,
    pub(super) prov_version: u32,
    pub(super) api_version: u32,
}

/// `struct fid`: what every object begins with.
#[repr(C)]
pub(super) struct Object {
    pub(super) class: usize,
    pub(super) context: *mut c_void,
    pub(super) ops: *const ObjectOps,
}

/// `struct fi_ops`.
#[repr(C)]
pub(super) struct ObjectOps {
    pub(super) size: usize,
    pub(super) close: unsafe extern "C" fn(*mut Object) -> c_int,
    pub(super) bind: unsafe extern "C" fn(*mut Object, *mut Object, u64) -> c_int,
    pub(super) control: unsafe extern "C" fn(*mut Object, c_int, *mut c_void) -> c_int,
}

/// `struct fid_fabric`.
#[repr(C)]
pub(super) struct Fabric {
    pub(super) object: Object,
    pub(super) ops: *const FabricOps,
}

/// `struct fi_ops_fabric`.
#[repr(C)]
pub(super) struct FabricOps {
    pub(super) size: usize,
    pub(super) domain: unsafe extern "C" fn(*mut Fabric, *mut Info, *mut *mut Domain, *mut c_void) -> c_int,
    pub(super) passive_ep: Unused,
    pub(super) eq_open: Unused,
    pub(super) wait_open: Unused,
    pub(super) trywait: unsafe extern "C" fn(*mut Fabric, *mut *mut Object, c_int) -> c_int,
}

/// `struct fid_domain`.
#[repr(C)]
pub(super) struct Domain {
    pub(super) object: Object,
    pub(super) ops: *const DomainOps,
    pub(super) memory: *const MemoryOps,
}

/// `struct fi_ops_domain`.
#[repr(C)]
pub(super) struct DomainOps {
    pub(super) size: usize,
    pub(super) av_open:
        unsafe extern "C" fn(*mut Domain, *mut AddressesAttributes, *mut *mut Addresses, *mut c_void) -> c_int,
    pub(super) cq_open: unsafe extern "C" fn(*mut Domain, *mut QueueAttributes, *mut *mut Queue, *mut c_void) -> c_int,
    pub(super) endpoint: unsafe extern "C" fn(*mut Domain, *mut Info, *mut *mut Endpoint, *mut c_void) -> c_int,
}

/// `struct fi_ops_mr`.
#[repr(C)]
pub(super) struct MemoryOps {
    pub(super) size: usize,
    pub(super) reg: unsafe extern "C" fn(
        *mut Object,
        *const c_void,
        usize,
        u64,
        u64,
        u64,
        u64,
        *mut *mut Registration,
        *mut c_void,
    ) -> c_int,
}

/// `struct fid_mr`.
#[repr(C)]
pub(super) struct Registration {
    pub(super) object: Object,
    pub(super) descriptor: *mut c_void,
    pub(super) key: u64,
}

/// `struct fid_av`.
#[repr(C)]
pub(super) struct Addresses {
    pub(super) object: Object,
    pub(super) ops: *const AddressesOps,
}

/// `struct fi_ops_av`.
#[repr(C)]
pub(super) struct AddressesOps {
    pub(super) size: usize,
    pub(super) insert: unsafe extern "C" fn(*mut Addresses, *const c_void, usize, *mut u64, u64, *mut c_void) -> c_int,
}

/// `struct fi_av_attr`.
#[repr(C)]
pub(super) struct AddressesAttributes {
    pub(super) kind: c_int,
    pub(super) rx_ctx_bits: c_int,
    pub(super) count: usize,
    pub(super) ep_per_node: usize,
    pub(super) name: *const c_char,
    pub(super) map_addr: *mut c_void,
    pub(super) flags: u64,
}

/// `struct fid_cq`.
#[repr(C)]
pub(super) struct Queue {
    pub(super) object: Object,
    pub(super) ops: *const QueueOps,
}

/// `struct fi_ops_cq`.
#[repr(C)]
pub(super) struct QueueOps {
    pub(super) size: usize,
    pub(super) read: unsafe extern "C" fn(*mut Queue, *mut c_void, usize) -> isize,
    pub(super) readfrom: Unused,
    pub(super) readerr: unsafe extern "C" fn(*mut Queue, *mut ErrorEntry, u64) -> isize,
}

/// `struct fi_cq_attr`.
#[repr(C)]
pub(super) struct QueueAttributes {
    pub(super) size: usize,
    pub(super) flags: u64,
    pub(super) format: c_int,
    pub(super) wait_obj: c_int,
    pub(super) signaling_vector: c_int,
    pub(super) wait_cond: c_int,
    pub(super) wait_set: *mut c_void,
}

/// `struct fi_cq_data_entry`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) context: *mut c_void,
    pub(super) flags: u64,
    pub(super) length: usize,
    pub(super) buffer: *mut c_void,
    pub(super) data: u64,
}

/// `struct fi_cq_err_entry`.
#[repr(C)]
pub(super) struct ErrorEntry {
    pub(super) context: *mut c_void,
    pub(super) flags: u64,
    pub(super) length: usize,
    pub(super) buffer: *mut c_void,
    pub(super) data: u64,
    pub(super) tag: u64,
    pub(super) overflow: usize,
    pub(super) error: c_int,
    pub(super) provider_error: c_int,
    pub(super) error_data: *mut c_void,
    pub(super) error_data_size: usize,
}

/// The beginning of `struct fid_ep`.
#[repr(C)]
pub(super) struct Endpoint {
    pub(super) object: Object,
    pub(super) ops: Unused,
    pub(super) naming: *const NamingOps,
    pub(super) messages: *const MessageOps,
    pub(super) one_sided: *const OneSidedOps,
}

/// `struct fi_ops_cm`.
#[repr(C)]
pub(super) struct NamingOps {
    pub(super) size: usize,
    pub(super) setname: Unused,
    pub(super) getname: unsafe extern "C" fn(*mut Object, *mut c_void, *mut usize) -> c_int,
}

/// `struct fi_ops_msg`.
#[repr(C)]
pub(super) struct MessageOps {
    pub(super) size: usize,
    pub(super) recv: unsafe extern "C" fn(*mut Endpoint, *mut c_void, usize, *mut c_void, u64, *mut c_void) -> isize,
    pub(super) recvv: Unused,
    pub(super) recvmsg: Unused,
    pub(super) send: unsafe extern "C" fn(*mut Endpoint, *const c_void, usize, *mut c_void, u64, *mut c_void) -> isize,
}

/// `struct fi_ops_rma`.
#[repr(C)]
pub(super) struct OneSidedOps {
    pub(super) size: usize,
    pub(super) read: Unused,
    pub(super) readv: Unused,
    pub(super) readmsg: Unused,
    pub(super) write:
        unsafe extern "C" fn(*mut Endpoint, *const c_void, usize, *mut c_void, u64, u64, u64, *mut c_void) -> isize,
    pub(super) writev: Unused,
    pub(super) writemsg: Unused,
    pub(super) inject: Unused,
    pub(super) writedata: unsafe extern "C" fn(
        *mut Endpoint,
        *const c_void,
        usize,
        *mut c_void,
        u64,
        u64,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    /// The numbers are what a C program prints that includes the header files of 1.17.
    #[test]
    fn what_is_told_about_providers_lies_as_the_header_has_it() {
        assert_eq!([offset_of!(Info, caps), offset_of!(Info, src_addr), offset_of!(Info, tx_attr)], [8, 48, 72]);
        assert_eq!(
            [offset_of!(Info, ep_attr), offset_of!(Info, domain_attr), offset_of!(Info, fabric_attr)],
            [88, 96, 104]
        );
        assert_eq!(size_of::<Info>(), 120);
        assert_eq!([offset_of!(TransmitAttributes, msg_order), offset_of!(TransmitAttributes, size)], [24, 48]);
        assert_eq!(offset_of!(ReceiveAttributes, msg_order), 24);
        assert_eq!([offset_of!(EndpointAttributes, kind), offset_of!(EndpointAttributes, max_msg_size)], [0, 16]);
        assert_eq!([offset_of!(DomainAttributes, name), offset_of!(DomainAttributes, threading)], [8, 16]);
        assert_eq!([offset_of!(DomainAttributes, mr_mode), offset_of!(DomainAttributes, mr_key_size)], [36, 40]);
        assert_eq!(offset_of!(DomainAttributes, cq_data_size), 48);
        assert_eq!([offset_of!(FabricAttributes, prov_name), offset_of!(FabricAttributes, prov_version)], [16, 24]);
    }

    #[test]
    fn objects_and_their_tables_lie_as_the_header_has_them() {
        assert_eq!([size_of::<Object>(), offset_of!(Object, ops)], [24, 16]);
        assert_eq!(
            [offset_of!(ObjectOps, close), offset_of!(ObjectOps, bind), offset_of!(ObjectOps, control)],
            [8, 16, 24]
        );
        assert_eq!(
            [offset_of!(Fabric, ops), offset_of!(FabricOps, domain), offset_of!(FabricOps, trywait)],
            [24, 8, 40]
        );
        assert_eq!([offset_of!(Domain, ops), offset_of!(Domain, memory), offset_of!(MemoryOps, reg)], [24, 32, 8]);
        let opens = [offset_of!(DomainOps, av_open), offset_of!(DomainOps, cq_open), offset_of!(DomainOps, endpoint)];
        assert_eq!(opens, [8, 16, 24]);
        assert_eq!([offset_of!(Registration, descriptor), offset_of!(Registration, key)], [24, 32]);
        assert_eq!([offset_of!(Addresses, ops), offset_of!(AddressesOps, insert)], [24, 8]);
        assert_eq!([offset_of!(Queue, ops), offset_of!(QueueOps, read), offset_of!(QueueOps, readerr)], [24, 8, 24]);
        assert_eq!([offset_of!(Endpoint, naming), offset_of!(Endpoint, messages)], [32, 40]);
        assert_eq!([offset_of!(Endpoint, one_sided), offset_of!(NamingOps, getname)], [48, 16]);
        assert_eq!([offset_of!(MessageOps, recv), offset_of!(MessageOps, send)], [8, 32]);
        assert_eq!([offset_of!(OneSidedOps, write), offset_of!(OneSidedOps, writedata)], [32, 64]);
    }

    #[test]
    fn what_is_given_to_and_taken_from_calls_lies_as_the_header_has_it() {
        assert_eq!(size_of::<AddressesAttributes>(), 48);
        assert_eq!([offset_of!(AddressesAttributes, count), offset_of!(AddressesAttributes, flags)], [8, 40]);
        assert_eq!(size_of::<QueueAttributes>(), 40);
        assert_eq!([offset_of!(QueueAttributes, format), offset_of!(QueueAttributes, wait_obj)], [16, 20]);
        assert_eq!(offset_of!(QueueAttributes, wait_set), 32);
        assert_eq!([size_of::<Entry>(), offset_of!(Entry, data)], [40, 32]);
        assert_eq!(size_of::<ErrorEntry>(), 80);
        assert_eq!([offset_of!(ErrorEntry, error), offset_of!(ErrorEntry, error_data)], [56, 64]);
    }
}
