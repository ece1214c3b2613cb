//! What is done to the volumes of a pool, drawn from a seed, beside their models.

use ishigaki_base::random::Seed;
use ishigaki_device::{AlignedBuffer, Device, SECTOR};
use ishigaki_tier::{Error, Mode, Pool};

use crate::model::{Model, fill, try_read};
use crate::mortal::Life;
use crate::{CHUNK, CHUNKS, LENGTH, USED};

/// What is done to a pool.
pub(crate) struct Work {
    random: fastrand::Rng,
    value: u64,
    pub(crate) models: Vec<Model>,
}

impl Work {
    pub(crate) fn new(seed: Seed) -> Self {
        let models = vec![
            Model::new("back", Mode::WriteBack),
            Model::new("through", Mode::WriteThrough),
            Model::new("read", Mode::ReadOnly),
        ];
        Self { random: seed.generator(), value: 0, models }
    }

    /// Makes the volumes.
    pub(crate) fn make(&self, pool: &Pool) -> ishigaki_tier::Result<()> {
        self.models.iter().try_for_each(|model| pool.create(model.name, LENGTH, model.mode).map(drop))
    }

    /// Makes those that are not there after a crash, which may have come between a device and the map.
    pub(crate) fn make_rest(&self, pool: &Pool) -> ishigaki_tier::Result<()> {
        for model in &self.models {
            if matches!(pool.volume(model.name), Err(Error::NotFound { .. })) {
                let made = pool.create(model.name, LENGTH, model.mode);
                made.or_else(|_| pool.attach(model.name, model.mode))?;
            }
        }
        Ok(())
    }

    /// One step. Whether the medium still answers.
    fn step(&mut self, pool: &Pool, life: &Life) -> bool {
        let Self { random, value, models } = self;
        // Most of it to the first one, whose way is the longest.
        let which = if random.u8(0..10) < 6 { 0 } else { random.usize(1..models.len()) };
        let model = &mut models[which];
        let Ok(volume) = pool.volume(model.name) else { return false };
        let block = volume.promise().block_size;
        let most = USED as usize / block;
        let first = random.usize(0..most);
        let longest = if random.bool() { 3 } else { most };
        let count = random.usize(1..=longest.min(most - first));
        let offset = random.u64(0..CHUNKS) * CHUNK + (first * block) as u64;
        let sectors = count * block / SECTOR;
        match random.u8(0..23) {
            0..10 => {
                *value += 1;
                let mut buffer = AlignedBuffer::zeroed(count * block);
                fill(&mut buffer, *value);
                return model.change(offset, sectors, Some(*value), || {
                    volume.write_at(offset, &buffer).is_ok() && !life.is_over()
                });
            }
            10..13 => {
                if volume.sync().is_err() {
                    return false;
                }
                model.synced();
            }
            13..16 => {
                if volume.promote(offset, (count * block) as u64).is_err() {
                    return false;
                }
            }
            16 => {
                // Only whole blocks are forgotten.
                let (first, end) = (offset.next_multiple_of(4096), (offset + (count * block) as u64) / 4096 * 4096);
                let forgotten = if first < end { (end - first) as usize / SECTOR } else { 0 };
                return model.change(first, forgotten, None, || {
                    volume.trim(offset, (count * block) as u64).is_ok() && !life.is_over()
                });
            }
            17..19 => {
                return model.change(offset, sectors, Some(0), || {
                    volume.zero(offset, (count * block) as u64).is_ok() && !life.is_over()
                });
            }
            19..21 => {
                if pool.clean().is_err() {
                    return false;
                }
            }
            21 => {
                let length = volume.len();
                let longer = length + random.u64(0..3) * 32 * 4096;
                if pool.resize(model.name, longer).is_err() {
                    return false;
                }
                model.synced();
                let Ok(after) = pool.volume(model.name) else { return false };
                assert_eq!(after.len(), longer);
                let added = try_read(&after, length, (longer - length) as usize / SECTOR);
                let Some(added) = added else { return false };
                assert!(added.iter().all(|value| *value == Some(0)), "what was added is zeros");
            }
            _ => {
                if volume.read_at(offset, &mut AlignedBuffer::zeroed(count * block)).is_err() {
                    return false;
                }
            }
        }
        true
    }

    /// All steps, or as many as the medium lets be done. Whether all were.
    pub(crate) fn run(&mut self, pool: &Pool, life: &Life, steps: usize) -> bool {
        for step in 0..steps {
            if !self.step(pool, life) || life.is_over() {
                return false;
            }
            if self.random.u8(0..8) == 0 {
                for model in &self.models {
                    let Ok(volume) = pool.volume(model.name) else { return false };
                    if !model.check(&volume, &format!("after step {step}")) {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// What a crash has left may be there. It is known from then on. Whether all of it could be read.
    pub(crate) fn take(&mut self, pool: &Pool, what: &str) -> bool {
        self.models.iter_mut().all(|model| pool.volume(model.name).is_ok_and(|volume| model.take(&volume, what)))
    }

    /// What a crash has left may be there, and stays what it is, wherever it is moved.
    pub(crate) fn judge(&mut self, pool: &Pool, what: &str) {
        assert!(self.take(pool, what), "{what}: it is read");
        pool.clean().expect("goes home");
        for chunk in 0..CHUNKS {
            // There are fewer slots than chunks: all leave.
            for model in &self.models {
                let volume = pool.volume(model.name).expect("is there");
                volume.promote(chunk * CHUNK, CHUNK).expect("comes");
                assert!(model.check(&volume, &format!("{what}, moved")), "it is read");
            }
        }
    }
}
