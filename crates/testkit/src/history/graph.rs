//! The direct serialization graph: nodes are committed transactions, by index.

use std::collections::VecDeque;
use std::fmt;

use super::Key;

/// Why one transaction must come before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependency {
    /// The first wrote a version, the other the next one.
    WriteWrite,
    /// The first wrote what the other saw.
    WriteRead,
    /// The first saw what the other replaced, or the absence that the other ended (anti-dependency).
    ReadWrite,
    /// The first had ended when the other began.
    RealTime,
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WriteWrite => "ww",
            Self::WriteRead => "wr",
            Self::ReadWrite => "rw",
            Self::RealTime => "rt",
        })
    }
}

/// An edge to `to`, with the operations (by index in their transactions) that make it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrow {
    pub(super) to: usize,
    pub(super) dependency: Dependency,
    pub(super) key: Option<Key>,
    pub(super) operations: Option<(usize, usize)>,
}

/// A graph that only grows.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    arrows: Vec<Vec<Arrow>>,
}

impl Graph {
    pub(super) fn new(nodes: usize) -> Self {
        Self { arrows: vec![Vec::new(); nodes] }
    }

    /// Adds an edge; one from a node to itself says nothing and is left out.
    pub(super) fn add(&mut self, from: usize, arrow: Arrow) {
        if from != arrow.to {
            self.arrows[from].push(arrow);
        }
    }

    /// Whether `to` can be reached from `from`.
    pub(super) fn reaches(&self, from: usize, to: usize) -> bool {
        let mut seen = vec![false; self.arrows.len()];
        let mut stack = vec![from];
        seen[from] = true;
        while let Some(node) = stack.pop() {
            if node == to {
                return true;
            }
            for arrow in &self.arrows[node] {
                if !std::mem::replace(&mut seen[arrow.to], true) {
                    stack.push(arrow.to);
                }
            }
        }
        false
    }

    /// The nodes that lie on a cycle or behind one: what is left when nodes without predecessors are taken away, one after
    /// the other.
    fn entangled(&self) -> Vec<usize> {
        let mut predecessors = vec![0_usize; self.arrows.len()];
        for arrow in self.arrows.iter().flatten() {
            predecessors[arrow.to] += 1;
        }
        let mut free: Vec<usize> = (0..self.arrows.len()).filter(|node| predecessors[*node] == 0).collect();
        while let Some(node) = free.pop() {
            for arrow in &self.arrows[node] {
                predecessors[arrow.to] -= 1;
                if predecessors[arrow.to] == 0 {
                    free.push(arrow.to);
                }
            }
        }
        (0..self.arrows.len()).filter(|node| predecessors[*node] > 0).collect()
    }

    /// A shortest cycle, as its edges in order with the node each starts from.
    pub(super) fn shortest_cycle(&self) -> Option<Vec<(usize, Arrow)>> {
        self.entangled().into_iter().filter_map(|node| self.cycle_through(node)).min_by_key(Vec::len)
    }

    /// A shortest cycle through `start`, by breadth-first search.
    fn cycle_through(&self, start: usize) -> Option<Vec<(usize, Arrow)>> {
        let mut came: Vec<Option<(usize, Arrow)>> = vec![None; self.arrows.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for arrow in &self.arrows[node] {
                if came[arrow.to].is_none() {
                    came[arrow.to] = Some((node, *arrow));
                    queue.push_back(arrow.to);
                }
            }
            if came[start].is_some() {
                break;
            }
        }
        let mut cycle = vec![came[start]?];
        while let Some((node, _)) = cycle.last().filter(|(node, _)| *node != start) {
            cycle.push(came[*node].expect("every node on the way was come to"));
        }
        cycle.reverse();
        Some(cycle)
    }
}
