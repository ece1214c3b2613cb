//! The few structures and functions of libfabric that a probe needs, after `rdma/fabric.h` of version 1.17.
//!
//! The structures are those of the library's interface since its version 1.3 of symbols; later versions only add fields
//! behind. They are read, never made or copied.

#![allow(unsafe_code, reason = "a library in C is called and its structures are read")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use libloading::{Library, Symbol};

use super::{EndpointKind, Libfabric, Provider};

/// The library's name, with the version of its interface.
const NAME: &str = "libfabric.so.1";

/// The version of the interface that is spoken here: 1.17.
const SPOKEN: u32 = 0x0001_0011;

/// Nobody offers more ways than this; a longer list is a broken one.
const MOST: usize = 10_000;

/// `FI_MSG` and `FI_RMA` among the capabilities.
const MESSAGES: u64 = 1 << 1;
const ONE_SIDED: u64 = 1 << 2;

/// `FI_MR_BASIC`, which stands for all of the next, `FI_MR_LOCAL`, `FI_MR_VIRT_ADDR` and `FI_MR_PROV_KEY`.
const BASIC: c_int = 1 << 0;
const LOCAL: c_int = 1 << 2;
const VIRTUAL: c_int = 1 << 4;
const PROVIDER_KEY: c_int = 1 << 6;

/// `struct fi_info`.
#[repr(C)]
struct Info {
    next: *const Info,
    caps: u64,
    mode: u64,
    addr_format: u32,
    src_addrlen: usize,
    dest_addrlen: usize,
    src_addr: *const c_void,
    dest_addr: *const c_void,
    handle: *const c_void,
    tx_attr: *const c_void,
    rx_attr: *const c_void,
    ep_attr: *const EndpointAttributes,
    domain_attr: *const DomainAttributes,
    fabric_attr: *const FabricAttributes,
    nic: *const c_void,
}

/// The beginning of `struct fi_ep_attr`.
#[repr(C)]
struct EndpointAttributes {
    kind: c_int,
    protocol: u32,
    protocol_version: u32,
    max_msg_size: usize,
}

/// The beginning of `struct fi_domain_attr`.
#[repr(C)]
struct DomainAttributes {
    domain: *const c_void,
    name: *const c_char,
    threading: c_int,
    control_progress: c_int,
    data_progress: c_int,
    resource_mgmt: c_int,
    av_type: c_int,
    mr_mode: c_int,
}

/// `struct fi_fabric_attr`.
#[repr(C)]
struct FabricAttributes {
    fabric: *const c_void,
    name: *const c_char,
    prov_name: *const c_char,
    prov_version: u32,
    api_version: u32,
}

/// `uint32_t fi_version(void)`.
type Version = unsafe extern "C" fn() -> u32;

/// `int fi_getinfo(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **)`.
type GetInfo = unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const Info, *mut *mut Info) -> c_int;

/// `void fi_freeinfo(struct fi_info *)`.
type FreeInfo = unsafe extern "C" fn(*mut Info);

/// Opens the library and lists what it offers.
pub(super) fn probe() -> Result<Option<Libfabric>, String> {
    // SAFETY: opening a library runs its initialisers. This one is the system's own, found by its plain name where the
    // system keeps libraries, and its initialisers only set up tables.
    let library = match unsafe { Library::new(NAME) } {
        Ok(library) => library,
        Err(error) if error.to_string().contains("cannot open shared object file") => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let missing = |error: libloading::Error| error.to_string();
    // SAFETY: the types are those that the header gives to these names, and has since 1.0.
    let version: Symbol<'_, Version> = unsafe { library.get(b"fi_version\0") }.map_err(missing)?;
    // SAFETY: as above.
    let get_info: Symbol<'_, GetInfo> = unsafe { library.get(b"fi_getinfo\0") }.map_err(missing)?;
    // SAFETY: as above.
    let free_info: Symbol<'_, FreeInfo> = unsafe { library.get(b"fi_freeinfo\0") }.map_err(missing)?;
    // SAFETY: it takes nothing and returns a number.
    let version = halves(unsafe { version() });
    let mut list = ptr::null_mut();
    // SAFETY: no node, service or hints are allowed by the interface, which then lists everything; `list` is ours and lives.
    let status = unsafe { get_info(SPOKEN, ptr::null(), ptr::null(), 0, ptr::null(), &raw mut list) };
    if status != 0 {
        return Err(format!("it lists no providers (error {})", -status));
    }
    let mut providers = Vec::new();
    let mut next: *const Info = list;
    // SAFETY: the library has given a list that ends with null; each of its elements is whole until the list is freed below.
    while let Some(info) = unsafe { next.as_ref() } {
        if providers.len() == MOST {
            break;
        }
        providers.extend(provider(info));
        next = info.next;
    }
    // SAFETY: the list is the library's, is freed once, and nothing of it is kept: `provider` copies.
    unsafe { free_info(list) };
    // Some providers have threads of their own by now, whose code must stay where it is.
    std::mem::forget(library);
    Ok(Some(Libfabric { version, providers }))
}

/// Copies what is told about one way.
fn provider(info: &Info) -> Option<Provider> {
    // SAFETY: each is null or points to a structure that lives as long as `info`; only fields are read that all versions
    // have.
    let attributes = unsafe { (info.ep_attr.as_ref()?, info.domain_attr.as_ref()?, info.fabric_attr.as_ref()?) };
    let (endpoint, domain, fabric) = attributes;
    let registration = |flag| domain.mr_mode & (flag | BASIC) != 0;
    Some(Provider {
        name: text(fabric.prov_name),
        version: halves(fabric.prov_version),
        fabric: text(fabric.name),
        domain: text(domain.name),
        endpoint: match endpoint.kind {
            1 => EndpointKind::Connected,
            2 => EndpointKind::Datagram,
            3 => EndpointKind::Reliable,
            _ => EndpointKind::Other,
        },
        messages: info.caps & MESSAGES != 0,
        one_sided: info.caps & ONE_SIDED != 0,
        local_registration: domain.mr_mode & LOCAL != 0,
        virtual_addresses: registration(VIRTUAL),
        provider_keys: registration(PROVIDER_KEY),
        longest_message: endpoint.max_msg_size as u64,
    })
}

/// A text of the library's; empty if there is none.
fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the library's texts end with a zero and live as long as the list that they belong to.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A version in one number.
fn halves(version: u32) -> (u16, u16) {
    ((version >> 16) as u16, version as u16)
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    #[test]
    fn the_structures_lie_as_the_header_of_1_17_has_them() {
        let info =
            [offset_of!(Info, caps), offset_of!(Info, ep_attr), offset_of!(Info, domain_attr), size_of::<Info>()];
        assert_eq!(info, [8, 88, 96, 120]);
        assert_eq!(offset_of!(Info, fabric_attr), 104);
        assert_eq!([offset_of!(EndpointAttributes, kind), offset_of!(EndpointAttributes, max_msg_size)], [0, 16]);
        assert_eq!([offset_of!(DomainAttributes, name), offset_of!(DomainAttributes, mr_mode)], [8, 36]);
        assert_eq!([offset_of!(FabricAttributes, prov_name), offset_of!(FabricAttributes, prov_version)], [16, 24]);
    }
}
