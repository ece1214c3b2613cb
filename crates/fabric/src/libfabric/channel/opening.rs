//! Opening what a channel consists of: fabric, domain, table of addresses, queue of completions, endpoint; and registering its
//! memory. What was opened is closed with the channel, also when a later step fails.

use std::ffi::c_int;
use std::ptr;

use super::super::layout::{
    ANY_THREAD, AddressesAttributes, ENABLE, GET_WAIT, Info, NO_WAIT, QueueAttributes, RECEIVE, REMOTE_WRITE,
    Registration as Registered, TABLE, TRANSMIT, WAIT_BY_DESCRIPTOR, WITH_DATA, WRITE,
};
use super::super::library::provider;
use super::super::memory::Memory;
use super::Channel;

impl Channel {
    /// Opens the objects, one upon the other.
    ///
    /// # Safety
    ///
    /// `info` is null or an element of a list of the library's that lives during the call.
    pub(super) unsafe fn set_up(&mut self, info: *mut Info) -> Result<(), String> {
        // SAFETY: promised by the caller.
        let told =
            unsafe { info.as_ref() }.and_then(|info| Some((provider(info)?, info.fabric_attr, info.domain_attr)));
        let Some((told, fabric, domain)) = told else { return Err("it offers what it does not describe".to_owned()) };
        // SAFETY: `provider` has found it there.
        let (threading, key_size, data_size) =
            unsafe { ((*domain).threading, (*domain).mr_key_size, (*domain).cq_data_size) };
        if data_size < size_of::<u32>() || threading != ANY_THREAD {
            return Err(format!("the provider {} can not number its writes, or is not for several threads", told.name));
        }
        self.by_address = told.virtual_addresses;
        // SAFETY: each call is one of the interface's, on objects that were opened by the calls before it, with structures of
        // the layout that it asks for; each result is looked at before the next. The tables of an object that was opened are
        // there and have these functions since 1.0.
        unsafe {
            let opened = (self.library.open_fabric)(fabric, &raw mut self.fabric, ptr::null_mut());
            self.ok("open its fabric", opened)?;
            let opened = ((*(*self.fabric).ops).domain)(self.fabric, info, &raw mut self.domain, ptr::null_mut());
            self.ok("open its domain", opened)?;
            let mut attributes = AddressesAttributes {
                kind: TABLE,
                rx_ctx_bits: 0,
                count: 1,
                ep_per_node: 0,
                name: ptr::null(),
                map_addr: ptr::null_mut(),
                flags: 0,
            };
            let ops = (*self.domain).ops;
            let opened = ((*ops).av_open)(self.domain, &raw mut attributes, &raw mut self.addresses, ptr::null_mut());
            self.ok("open a table of addresses", opened)?;
            self.open_queue()?;
            let opened = ((*ops).endpoint)(self.domain, info, &raw mut self.endpoint, ptr::null_mut());
            self.ok("open an endpoint", opened)?;
            let object = &raw mut (*self.endpoint).object;
            let (bind, control) = ((*(*object).ops).bind, (*(*object).ops).control);
            self.ok("bind the addresses", bind(object, self.addresses.cast(), 0))?;
            self.ok("bind the queue", bind(object, self.queue.cast(), TRANSMIT | RECEIVE))?;
            self.ok("enable the endpoint", control(object, ENABLE, ptr::null_mut()))?;
        }
        self.name.clone_from(&told.name);
        self.registered[0] = self.register(&self.landing, REMOTE_WRITE, key_size)?;
        if told.local_registration {
            self.registered[1] = self.register(&self.own, TRANSMIT | RECEIVE | WRITE, key_size)?;
        }
        Ok(())
    }

    /// Opens the queue of completions, with a descriptor to sleep on if that is to be had.
    ///
    /// # Safety
    ///
    /// The domain is open.
    unsafe fn open_queue(&mut self) -> Result<(), String> {
        for wait_obj in [WAIT_BY_DESCRIPTOR, NO_WAIT] {
            let mut attributes = QueueAttributes {
                size: 2 * self.sizes.operations(),
                flags: 0,
                format: WITH_DATA,
                wait_obj,
                signaling_vector: 0,
                wait_cond: 0,
                wait_set: ptr::null_mut(),
            };
            // SAFETY: the domain is open, the structure has the layout that is asked for.
            let opened = unsafe {
                ((*(*self.domain).ops).cq_open)(self.domain, &raw mut attributes, &raw mut self.queue, ptr::null_mut())
            };
            if opened != 0 {
                self.queue = ptr::null_mut();
                if wait_obj == NO_WAIT {
                    self.ok("open a queue of completions", opened)?;
                }
                continue;
            }
            if wait_obj == WAIT_BY_DESCRIPTOR {
                let mut descriptor: c_int = -1;
                // SAFETY: the queue is open; for a queue with a descriptor the argument is where that is put.
                let status = unsafe {
                    let object = &raw mut (*self.queue).object;
                    ((*(*object).ops).control)(object, GET_WAIT, (&raw mut descriptor).cast())
                };
                self.ok("tell the descriptor of its queue", status)?;
                self.descriptor = (descriptor >= 0).then_some(descriptor);
            }
            return Ok(());
        }
        Ok(())
    }

    /// Registers all of `memory`, which the channel keeps until the registration is closed.
    fn register(&self, memory: &Memory, access: u64, key_size: usize) -> Result<*mut Registered, String> {
        // Where the provider chooses keys it does not look at this one.
        let wanted = u64::from_le_bytes(crate::region::random().map_err(|error| error.to_string())?);
        let wanted = wanted & u64::MAX.checked_shr(64 - 8 * key_size.clamp(1, 8) as u32).unwrap_or(u64::MAX);
        let (place, length) = (memory.place(0, memory.len()), memory.len());
        let mut registered = ptr::null_mut();
        // SAFETY: the domain is open. The memory stays where it is and is freed after the registration is closed, or never.
        let status = unsafe {
            let object = &raw mut (*self.domain).object;
            let reg = (*(*self.domain).memory).reg;
            reg(object, place.cast(), length, access, 0, wanted, 0, &raw mut registered, ptr::null_mut())
        };
        self.ok("register memory", status)?;
        Ok(registered)
    }
}
