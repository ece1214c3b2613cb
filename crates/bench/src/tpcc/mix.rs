//! Which transactions are run, and in which proportion.

use std::fmt;
use std::str::FromStr;

use fastrand::Rng;

use crate::Error;

/// A type of transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl Kind {
    pub(super) const ALL: [Self; 5] =
        [Self::NewOrder, Self::Payment, Self::OrderStatus, Self::Delivery, Self::StockLevel];

    /// What figures call them, in that order.
    pub(super) const NAMES: [&str; 5] = ["new-order", "payment", "order-status", "delivery", "stock-level"];
}

/// Which transactions are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// All five, 45, 43, 4, 4 and 4 of a hundred (clause 5.2.3).
    Full,
    /// New-Order alone, as the papers on logging and concurrency control often have it.
    NewOrder,
    /// New-Order alone, and it inserts nothing: what it would insert is made and thrown away (paper 2, section 5).
    NewOrderNoInsert,
    /// New-Order and Payment, half and half.
    NewOrderPayment,
}

impl Mix {
    /// Every mix.
    pub const ALL: [Self; 4] = [Self::Full, Self::NewOrder, Self::NewOrderNoInsert, Self::NewOrderPayment];

    /// Of a hundred transactions how many are of each type, in the order of [`Kind::ALL`].
    fn shares(self) -> [usize; 5] {
        match self {
            Self::Full => [45, 43, 4, 4, 4],
            Self::NewOrder | Self::NewOrderNoInsert => [100, 0, 0, 0, 0],
            Self::NewOrderPayment => [50, 50, 0, 0, 0],
        }
    }

    /// Whether New-Order inserts what it should.
    pub(super) fn inserts(self) -> bool {
        self != Self::NewOrderNoInsert
    }
}

/// A hundred cards in the mix's proportion, drawn until none is left, then shuffled again (clause 5.2.4.2).
#[derive(Clone, Debug)]
pub(super) struct Deck {
    cards: Vec<Kind>,
    drawn: usize,
}

impl Deck {
    pub(super) fn new(mix: Mix) -> Self {
        let cards = Kind::ALL.into_iter().zip(mix.shares());
        let cards: Vec<Kind> = cards.flat_map(|(kind, share)| std::iter::repeat_n(kind, share)).collect();
        Self { drawn: cards.len(), cards }
    }

    pub(super) fn draw(&mut self, random: &mut Rng) -> Kind {
        if self.drawn == self.cards.len() {
            random.shuffle(&mut self.cards);
            self.drawn = 0;
        }
        self.drawn += 1;
        self.cards[self.drawn - 1]
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "full",
            Self::NewOrder => "new-order",
            Self::NewOrderNoInsert => "new-order-no-insert",
            Self::NewOrderPayment => "new-order-payment",
        })
    }
}

impl FromStr for Mix {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|mix| mix.to_string() == text).ok_or_else(|| {
            let reason = format!("there are full, new-order, new-order-no-insert and new-order-payment, not `{text}`");
            Error::Invalid { setting: "mix", reason }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ishigaki_base::random::Seed;

    #[test]
    fn names_are_read_and_written_alike() {
        for mix in Mix::ALL {
            assert_eq!(mix.to_string().parse::<Mix>().unwrap(), mix);
        }
        assert!("all".parse::<Mix>().unwrap_err().to_string().contains("full, new-order"));
    }

    #[test]
    fn every_hundred_transactions_have_the_mixs_proportion_in_another_order() {
        for (mix, shares) in [(Mix::Full, [45, 43, 4, 4, 4]), (Mix::NewOrderPayment, [50, 50, 0, 0, 0])] {
            let mut random = Seed(1).generator();
            let mut deck = Deck::new(mix);
            let mut hundreds: Vec<Vec<Kind>> = Vec::new();
            for _ in 0..5 {
                let hundred: Vec<Kind> = (0..100).map(|_| deck.draw(&mut random)).collect();
                let counts = Kind::ALL.map(|kind| hundred.iter().filter(|drawn| **drawn == kind).count());
                assert_eq!(counts, shares);
                assert!(!hundreds.contains(&hundred));
                hundreds.push(hundred);
            }
        }
    }
}
