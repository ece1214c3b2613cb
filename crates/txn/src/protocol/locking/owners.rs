//! A small set of transactions, in the space of two words while it has at most one.

use super::super::TransactionId;

/// Transactions that hold, or wait for, one thing. Most sets are empty, most others have one member.
#[derive(Debug, Default)]
pub(crate) enum Owners {
    /// Nobody.
    #[default]
    None,
    /// One transaction.
    One(TransactionId),
    /// Two or more. Boxed to keep the enum, which every record carries, at two words.
    #[expect(clippy::box_collection, reason = "a bare Vec would make every record two words larger")]
    Many(Box<Vec<TransactionId>>),
}

impl Owners {
    fn as_slice(&self) -> &[TransactionId] {
        match self {
            Self::None => &[],
            Self::One(id) => std::slice::from_ref(id),
            Self::Many(ids) => ids,
        }
    }

    pub(crate) fn contains(&self, id: TransactionId) -> bool {
        self.as_slice().contains(&id)
    }

    /// The oldest member but `me`.
    pub(crate) fn oldest_but(&self, me: TransactionId) -> Option<TransactionId> {
        self.as_slice().iter().copied().filter(|&id| id != me).min()
    }

    /// Adds a transaction that is not a member.
    pub(crate) fn add(&mut self, id: TransactionId) {
        match self {
            Self::None => *self = Self::One(id),
            Self::One(first) => *self = Self::Many(Box::new(vec![*first, id])),
            Self::Many(ids) => ids.push(id),
        }
    }

    /// Removes a transaction; says whether it was a member.
    pub(crate) fn remove(&mut self, id: TransactionId) -> bool {
        match self {
            Self::One(only) if *only == id => *self = Self::None,
            Self::Many(ids) => {
                let Some(at) = ids.iter().position(|&member| member == id) else { return false };
                ids.swap_remove(at);
                if let [last] = ids[..] {
                    *self = Self::One(last);
                }
            }
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Age;

    fn id(age: u64) -> TransactionId {
        TransactionId::first(Age(age))
    }

    #[test]
    fn members_come_and_go() {
        let mut owners = Owners::default();
        for age in [3, 1, 2] {
            owners.add(id(age));
        }
        assert_eq!(owners.oldest_but(id(9)), Some(id(1)));
        assert_eq!(owners.oldest_but(id(1)), Some(id(2)));
        assert!(owners.contains(id(3)) && !owners.remove(id(4)));
        assert!(owners.remove(id(1)) && owners.remove(id(3)));
        assert!(matches!(owners, Owners::One(_)));
        assert!(owners.remove(id(2)) && matches!(owners, Owners::None));
        assert_eq!(owners.oldest_but(id(9)), None);
    }

    #[test]
    fn a_set_takes_two_words() {
        assert_eq!(size_of::<Owners>(), 16);
    }
}
