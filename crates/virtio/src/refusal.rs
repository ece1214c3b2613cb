//! Machines that are refused. A hypervisor that is refused connects again each second, so it is told of once, and again when the reason is another one or when it was served in
//! between. Several may come in turns.

use std::collections::BTreeMap;

/// Hypervisors that are remembered at most. More than that are forgotten together, and told of anew.
const MOST: usize = 64;

/// The refusals that were told, by the number of the hypervisor's process.
#[derive(Debug, Default)]
pub(crate) struct Refusals(BTreeMap<Option<i32>, String>);

impl Refusals {
    /// Takes the next one. Whether it is to be told.
    pub(crate) fn is_new(&mut self, machine: Option<i32>, reason: &str) -> bool {
        if self.0.get(&machine).is_some_and(|told| told == reason) {
            return false;
        }
        if self.0.len() >= MOST {
            self.0.clear();
        }
        self.0.insert(machine, reason.to_owned());
        true
    }

    /// That machine was served: a later refusal of it is a new one.
    pub(crate) fn is_over(&mut self, machine: Option<i32>) {
        self.0.remove(&machine);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_is_told_of_once_for_each_reason_and_the_memory_has_an_end() {
        let mut refusals = Refusals::default();
        for is_new in [true, false, false] {
            for machine in [Some(1), Some(2), None] {
                assert_eq!(refusals.is_new(machine, "why"), is_new);
            }
        }
        refusals.is_over(Some(3));
        assert!(!refusals.is_new(Some(1), "why") && refusals.is_new(Some(1), "another"));
        refusals.is_over(Some(2));
        assert!(refusals.is_new(Some(2), "why"));
        for machine in 0..1000 {
            refusals.is_new(Some(machine), "why");
        }
        assert!(refusals.0.len() <= MOST);
    }
}
