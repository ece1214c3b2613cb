//! The library itself, opened once, and what it tells about providers.

#![allow(unsafe_code, reason = "a library in C is called and its structures are read")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;
use std::sync::OnceLock;

use libloading::{Library as Loaded, Symbol};

use super::layout::{
    ALLOCATED, ANY_THREAD, BASIC, CONTEXTS, Fabric, FabricAttributes, Info, LOCAL, MESSAGES, MESSAGES_IN_ORDER,
    ONE_SIDED, PROVIDER_KEY, RELIABLE, SOURCE, VIRTUAL,
};
use super::{EndpointKind, Libfabric, Provider};

/// The library's name, with the version of its interface.
const NAME: &str = "libfabric.so.1";

/// The version of the interface that is spoken here: 1.17.
const SPOKEN: u32 = 0x0001_0011;

/// Nobody offers more ways than this; a longer list is a broken one.
const MOST: usize = 10_000;

type Version = unsafe extern "C" fn() -> u32;
type GetInfo = unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const Info, *mut *mut Info) -> c_int;
type FreeInfo = unsafe extern "C" fn(*mut Info);
type CopyInfo = unsafe extern "C" fn(*const Info) -> *mut Info;
type OpenFabric = unsafe extern "C" fn(*mut FabricAttributes, *mut *mut Fabric, *mut std::ffi::c_void) -> c_int;
type ErrorText = unsafe extern "C" fn(c_int) -> *const c_char;

/// The functions that are symbols.
#[derive(Clone, Copy)]
pub(super) struct Library {
    version: Version,
    get_info: GetInfo,
    free_info: FreeInfo,
    copy_info: CopyInfo,
    pub(super) open_fabric: OpenFabric,
    error_text: ErrorText,
}

/// How memory is registered, as far as we may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registration {
    /// As the provider likes it best.
    Any,
    /// By virtual address, with a key of the provider's; what hardware does.
    #[cfg(test)]
    Basic,
}

/// A list of the library's that is freed with it.
pub(super) struct Offers {
    library: Library,
    list: *mut Info,
}

impl Library {
    /// Opens the library, once for this process. Nothing: there is none here.
    pub(super) fn open() -> Result<Option<Self>, String> {
        static OPENED: OnceLock<Result<Option<Library>, String>> = OnceLock::new();
        OPENED.get_or_init(Self::load).clone()
    }

    fn load() -> Result<Option<Self>, String> {
        // SAFETY: opening a library runs its initialisers. This one is the system's own, found by its plain name where the
        // system keeps libraries, and its initialisers only set up tables.
        let loaded = match unsafe { Loaded::new(NAME) } {
            Ok(loaded) => loaded,
            Err(error) if error.to_string().contains("cannot open shared object file") => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        // SAFETY: the types are those that the header gives to these names, and has since 1.0.
        let library = unsafe {
            Self {
                version: symbol(&loaded, b"fi_version\0")?,
                get_info: symbol(&loaded, b"fi_getinfo\0")?,
                free_info: symbol(&loaded, b"fi_freeinfo\0")?,
                copy_info: symbol(&loaded, b"fi_dupinfo\0")?,
                open_fabric: symbol(&loaded, b"fi_fabric\0")?,
                error_text: symbol(&loaded, b"fi_strerror\0")?,
            }
        };
        // Some providers have threads of their own by now, whose code must stay where it is.
        std::mem::forget(loaded);
        Ok(Some(library))
    }

    /// The library's word for an error, given as its functions return it.
    pub(super) fn why(self, status: impl TryInto<i32>) -> String {
        let number = status.try_into().map_or(0, i32::wrapping_abs);
        // SAFETY: it takes any number and returns a text that stays.
        format!("{} ({number})", text(unsafe { (self.error_text)(number) }))
    }

    /// All that providers offer.
    fn everything(self) -> Result<Offers, String> {
        let mut list = ptr::null_mut();
        // SAFETY: no node, service or hints are allowed by the interface, which then lists everything; `list` is ours.
        let status = unsafe { (self.get_info)(SPOKEN, ptr::null(), ptr::null(), 0, ptr::null(), &raw mut list) };
        if status != 0 {
            return Err(format!("it lists no providers: {}", self.why(status)));
        }
        Ok(Offers { library: self, list })
    }

    /// What `provider` offers for reliable endpoints without connections that send messages in order and write into memory,
    /// at the address `source` of this host, or under that name if the provider has names.
    pub(super) fn offers(self, provider: &str, source: &str, mode: Registration) -> Result<Offers, String> {
        let name = CString::new(provider).map_err(|_| "a provider's name with a zero in it".to_owned())?;
        let node = CString::new(source).map_err(|_| "an address with a zero in it".to_owned())?;
        // SAFETY: without an argument it makes a structure in which all parts are there and empty; that is the way to get one.
        let hints = unsafe { (self.copy_info)(ptr::null()) };
        let hints = Offers { library: self, list: hints };
        // SAFETY: null or the structure that was made just now, which nobody else has.
        let Some(info) = (unsafe { hints.list.as_mut() }) else { return Err("no memory".to_owned()) };
        // SAFETY: the parts are there, as said above.
        let parts = unsafe {
            (
                info.tx_attr.as_mut(),
                info.rx_attr.as_mut(),
                info.ep_attr.as_mut(),
                info.domain_attr.as_mut(),
                info.fabric_attr.as_mut(),
            )
        };
        let (Some(transmit), Some(receive), Some(endpoint), Some(domain), Some(fabric)) = parts else {
            return Err("it makes structures without parts".to_owned());
        };
        info.caps = MESSAGES | ONE_SIDED;
        info.mode = CONTEXTS;
        transmit.msg_order = MESSAGES_IN_ORDER;
        receive.msg_order = MESSAGES_IN_ORDER;
        endpoint.kind = RELIABLE;
        domain.threading = ANY_THREAD;
        domain.mr_mode = match mode {
            Registration::Any => LOCAL | VIRTUAL | ALLOCATED | PROVIDER_KEY,
            #[cfg(test)]
            Registration::Basic => BASIC,
        };
        fabric.prov_name = name.as_ptr();
        let mut list = ptr::null_mut();
        // SAFETY: node and hints live as long as the call; `list` is ours.
        let status = unsafe { (self.get_info)(SPOKEN, node.as_ptr(), ptr::null(), SOURCE, hints.list, &raw mut list) };
        // Ours, not the library's to free.
        fabric.prov_name = ptr::null();
        if status != 0 {
            return Err(format!("the provider {provider} is not to be had here at {source}: {}", self.why(status)));
        }
        Ok(Offers { library: self, list })
    }
}

/// A function of the library's.
///
/// # Safety
///
/// `T` is the type that the function has.
unsafe fn symbol<T: Copy>(loaded: &Loaded, name: &[u8]) -> Result<T, String> {
    // SAFETY: promised by the caller.
    let symbol: Symbol<'_, T> = unsafe { loaded.get(name) }.map_err(|error| error.to_string())?;
    Ok(*symbol)
}

impl Offers {
    /// The first of them, which the provider likes best.
    pub(super) fn first(&self) -> *mut Info {
        self.list
    }
}

impl Drop for Offers {
    fn drop(&mut self) {
        if !self.list.is_null() {
            // SAFETY: the list is the library's and is freed once; whoever reads it borrows from this.
            unsafe { (self.library.free_info)(self.list) };
        }
    }
}

/// Lists what the library offers.
pub(super) fn probe() -> Result<Option<Libfabric>, String> {
    let Some(library) = Library::open()? else { return Ok(None) };
    // SAFETY: it takes nothing and returns a number.
    let version = halves(unsafe { (library.version)() });
    let offers = library.everything()?;
    let mut providers = Vec::new();
    let mut next = offers.first().cast_const();
    // SAFETY: the library has given a list that ends with null; each of its elements is whole until the list is freed.
    while let Some(info) = unsafe { next.as_ref() } {
        if providers.len() == MOST {
            break;
        }
        providers.extend(provider(info));
        next = info.next;
    }
    Ok(Some(Libfabric { version, providers }))
}

/// Copies what is told about one way.
pub(super) fn provider(info: &Info) -> Option<Provider> {
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
