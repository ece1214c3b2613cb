//! What a hypervisor says of a device: whose features it takes, where the guest's memory lies, and where its queues are.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight, VhostUserLog,
    VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};
use virtio_queue::QueueT;
use vm_memory::{GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

use crate::inflight::Inflight;
use crate::queue::Queue;
use crate::{Memory, Requests};

/// Descriptors of a queue at most.
const QUEUE_SIZE: u16 = 1024;

/// `VIRTIO_F_VERSION_1`, `VIRTIO_RING_F_INDIRECT_DESC`, `VIRTIO_RING_F_EVENT_IDX` and `VHOST_USER_F_PROTOCOL_FEATURES`, by their bits.
const FEATURES: u64 = 1 << 32 | 1 << 28 | EVENT_IDX | PROTOCOL_FEATURES;
const EVENT_IDX: u64 = 1 << 29;
const PROTOCOL_FEATURES: u64 = 1 << 30;

/// A part of the hypervisor's memory that is the guest's.
struct Mapping {
    /// Where the hypervisor has it.
    begin: u64,
    length: u64,
    guest: u64,
}

/// A device, as one hypervisor uses it.
pub(crate) struct Machine {
    requests: Arc<dyn Requests>,
    queues: Vec<Arc<Queue>>,
    memory: Memory,
    mappings: Vec<Mapping>,
    is_owned: bool,
    features: u64,
    inflight: Option<Inflight>,
}

impl Machine {
    pub(crate) fn new(requests: Arc<dyn Requests>, is_broken: &Arc<AtomicBool>) -> std::io::Result<Self> {
        let memory = Memory::new(GuestMemoryMmap::new());
        let queue = |number| Queue::new(number, QUEUE_SIZE, memory.clone(), is_broken.clone()).map(Arc::new);
        let queues = (0..requests.queues()).map(queue).collect::<std::io::Result<_>>()?;
        Ok(Self { requests, queues, memory, mappings: Vec::new(), is_owned: false, features: 0, inflight: None })
    }

    pub(crate) fn queues(&self) -> &[Arc<Queue>] {
        &self.queues
    }

    fn queue(&self, index: u32) -> Result<&Arc<Queue>> {
        usize::try_from(index).ok().and_then(|index| self.queues.get(index)).ok_or(Error::InvalidParam)
    }

    /// Where the guest has what the hypervisor has there.
    fn guest_address(&self, address: u64) -> Result<u64> {
        let within = |mapping: &&Mapping| address.checked_sub(mapping.begin).is_some_and(|at| at < mapping.length);
        let mapping = self.mappings.iter().find(within).ok_or(Error::InvalidParam)?;
        Ok(address - mapping.begin + mapping.guest)
    }

    fn stop(&self) {
        for queue in &self.queues {
            queue.enable(false);
            queue.stop(self.requests.patience());
        }
    }

    /// Gives each queue its account.
    fn take_inflight(&mut self, inflight: Inflight) {
        for (queue, number) in self.queues.iter().zip(0..) {
            queue.set_account(inflight.account(number));
        }
        self.inflight = Some(inflight);
    }
}

fn failed(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::ReqHandlerError(std::io::Error::other(reason))
}

/// A question that is never asked, because the device does not say that it knows the answer.
fn unknown<T>() -> Result<T> {
    Err(Error::InvalidOperation("not supported"))
}

impl VhostUserBackendReqHandlerMut for Machine {
    fn set_owner(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_owned, true) {
            return Err(Error::InvalidOperation("already claimed"));
        }
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.is_owned = false;
        self.reset_device()
    }

    fn reset_device(&mut self) -> Result<()> {
        self.stop();
        self.features = 0;
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(FEATURES | self.requests.features())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !(FEATURES | self.requests.features()) != 0 {
            return Err(Error::InvalidParam);
        }
        self.features = features;
        for queue in &self.queues {
            queue.with_ring(|ring| ring.set_event_idx(features & EVENT_IDX != 0));
            if features & PROTOCOL_FEATURES == 0 {
                queue.enable(true);
            }
        }
        self.requests.taken_features(features);
        Ok(())
    }

    fn set_mem_table(&mut self, regions: &[VhostUserMemoryRegion], files: Vec<File>) -> Result<()> {
        let mut parts = Vec::new();
        let mut mappings = Vec::new();
        for (region, file) in regions.iter().zip(files) {
            let mapped: MmapRegion = region.mmap_region(file)?;
            let part = GuestRegionMmap::new(mapped, GuestAddress(region.guest_phys_addr));
            parts.push(part.ok_or(Error::InvalidParam)?);
            mappings.push(Mapping {
                begin: region.user_addr,
                length: region.memory_size,
                guest: region.guest_phys_addr,
            });
        }
        let memory = GuestMemoryMmap::from_regions(parts).map_err(|error| failed(error.to_string()))?;
        self.memory.lock().map_err(|error| failed(error.to_string()))?.replace(memory);
        self.mappings = mappings;
        Ok(())
    }

    fn set_vring_num(&mut self, index: u32, size: u32) -> Result<()> {
        let size = u16::try_from(size).ok().filter(|size| *size <= QUEUE_SIZE && size.is_power_of_two());
        let size = size.ok_or(Error::InvalidParam)?;
        self.queue(index)?.with_ring(|ring| ring.set_size(size));
        Ok(())
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _: VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _: u64,
    ) -> Result<()> {
        let [descriptor, available, used] = [descriptor, available, used].map(|address| self.guest_address(address));
        self.queue(index)?.place(descriptor?, available?, used?).map_err(failed)
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        self.queue(index)?.with_ring(|ring| ring.set_next_avail(base));
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let base = self.queue(index)?.stop(self.requests.patience());
        Ok(VhostUserVringState::new(index, base.into()))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        self.queue(index.into())?.set_kick(file.map(OwnedFd::from)).map_err(failed)
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        self.queue(index.into())?.set_call(file.map(OwnedFd::from));
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, _: Option<File>) -> Result<()> {
        self.queue(index.into()).map(drop)
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        let mut features = VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::RESET_DEVICE;
        features.set(VhostUserProtocolFeatures::CONFIG, !self.requests.config().is_empty());
        features.set(VhostUserProtocolFeatures::INFLIGHT_SHMFD, self.requests.is_asked_again());
        Ok(features)
    }

    fn set_protocol_features(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(self.queues.len() as u64)
    }

    fn set_vring_enable(&mut self, index: u32, is_enabled: bool) -> Result<()> {
        self.queue(index)?.enable(is_enabled);
        Ok(())
    }

    fn get_config(&mut self, offset: u32, size: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        let config = self.requests.config();
        let begin = (offset as usize).min(config.len());
        let mut part = config[begin..config.len().min(begin + size as usize)].to_vec();
        // The hypervisor knows fields that this device has not.
        part.resize(size as usize, 0);
        Ok(part)
    }

    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        // Nothing of it can be changed by a guest.
        Ok(())
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        unknown()
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        unknown()
    }

    fn get_inflight_fd(&mut self, wanted: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        let (queues, size) = (wanted.num_queues, wanted.queue_size);
        if size > QUEUE_SIZE || usize::from(queues) > self.queues.len() {
            return Err(Error::InvalidParam);
        }
        let (inflight, file, length) =
            Inflight::new(queues, size, self.requests.session()).map_err(Error::ReqHandlerError)?;
        self.take_inflight(inflight);
        Ok((VhostUserInflight::new(length, 0, queues, size), file))
    }

    fn set_inflight_fd(&mut self, told: &VhostUserInflight, file: File) -> Result<()> {
        let inflight = Inflight::map(file, told.mmap_offset, told.mmap_size, told.num_queues, told.queue_size);
        let inflight = inflight.map_err(Error::ReqHandlerError)?;
        if inflight.session() != 0 && inflight.session() != self.requests.session() {
            return Err(failed(
                "the machine goes on from another service: of another pool, which has a volume of this name and the same folder of sockets, or of this one, and writes that were not flushed are lost; then end the machine, and start it anew",
            ));
        }
        self.take_inflight(inflight);
        Ok(())
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        unknown()
    }

    fn add_mem_region(&mut self, _: &VhostUserSingleMemoryRegion, _: File) -> Result<()> {
        unknown()
    }

    fn remove_mem_region(&mut self, _: &VhostUserSingleMemoryRegion) -> Result<()> {
        unknown()
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        unknown()
    }

    fn check_device_state(&mut self) -> Result<()> {
        unknown()
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        unknown()
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        unknown()
    }
}
