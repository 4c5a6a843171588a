//! The graph of a plan as rails of text beside its steps, one line for each step, as version histories are drawn.
//! Knows no labels and no states.
//!
//! A rail begins below a step that others depend on and ends at the last of them. Steps with the same dependents share
//! a rail if there are many; an arrow shows that they feed it.

use super::graph::Graph;

/// The rails beside one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    /// What stands left of the step's mark.
    pub(super) before: String,
    /// What stands right of it.
    pub(super) after: String,
    /// Dependencies that found no rail.
    pub(super) in_words: Vec<usize>,
}

impl Row {
    /// Columns with the mark.
    pub(super) fn columns(&self) -> usize {
        self.before.chars().count() + 1 + self.after.chars().count()
    }
}

/// One row for each step; no row has more rails than that.
pub(super) fn rows(graph: &Graph, n_rails_max: usize) -> Vec<Row> {
    let mut yard = Yard {
        graph,
        rails: vec![None; n_rails_max],
        above: vec![false; n_rails_max],
        rail_of: vec![None; graph.nets.len()],
        n_to_come: graph.nets.iter().map(|net| net.targets.len()).collect(),
        n_beside: 0,
    };
    (0..graph.layers.len()).map(|step| yard.row(step)).collect()
}

/// The rails as they run from one row to the next.
struct Yard<'a> {
    graph: &'a Graph,
    /// The net whose rail runs here.
    rails: Vec<Option<usize>>,
    /// Where a step of the row above has its mark and no rail below it.
    above: Vec<bool>,
    /// By net: where its rail runs.
    rail_of: Vec<Option<usize>>,
    /// By net: targets that are still to come.
    n_to_come: Vec<usize>,
    /// Steps that stood beside the rails so far.
    n_beside: usize,
}

/// The directions in which lines leave a cell, and the mark in it.
#[derive(Clone, Copy, Default)]
struct Place {
    up: bool,
    down: bool,
    /// A way from the left or the right ends or branches here.
    joins: bool,
    left: bool,
    right: bool,
}

impl Yard<'_> {
    fn row(&mut self, step: usize) -> Row {
        let n_rails = self.rails.len();
        let mut row = Row::default();
        let mut places = vec![Place::default(); n_rails + 2];
        for (place, rail) in places.iter_mut().zip(&self.rails) {
            (place.up, place.down) = (rail.is_some(), rail.is_some());
        }
        let mut ended = Vec::new();
        let mut joined = Vec::new();
        for net in &self.graph.enters_by[step] {
            self.n_to_come[*net] -= 1;
            let Some(at) = self.rail_of[*net] else {
                row.in_words.extend(&self.graph.nets[*net].sources);
                continue;
            };
            joined.push(at);
            if self.n_to_come[*net] == 0 {
                self.rails[at] = None;
                self.rail_of[*net] = None;
                places[at].down = false;
                ended.push(at);
            }
        }
        row.in_words.sort_unstable();
        joined.sort_unstable();
        ended.sort_unstable();
        let own = self.own_place(&ended, &joined, n_rails);
        let fed = self.leave(step, own, &mut places);
        self.above = (0..n_rails).map(|at| at == own && !places[at].down).collect();
        for at in joined.iter().chain(&fed) {
            places[*at].joins = true;
        }
        let ends = || joined.iter().chain(&fed).copied().chain([own]);
        let (first, last) = (ends().min().unwrap_or(own), ends().max().unwrap_or(own));
        for (at, place) in places.iter_mut().enumerate() {
            place.left = first < at && at <= last;
            place.right = first <= at && at < last;
        }
        write(&places, own, fed, &mut row);
        row
    }

    /// Where the step is drawn: below a dependency that ends here, else on a free rail, else beside all rails.
    fn own_place(&mut self, ended: &[usize], joined: &[usize], n_rails: usize) -> usize {
        if let Some(at) = ended.first() {
            return *at;
        }
        let near = joined.last().copied().unwrap_or(0);
        self.nearest(near, |at| self.is_free(*at)).unwrap_or_else(|| {
            // Two places take turns, so that no step seems to hang on the one above it.
            self.n_beside += 1;
            n_rails + (self.n_beside - 1) % 2
        })
    }

    /// True if no rail runs; never right below a step that has nothing to do with what comes.
    fn is_free(&self, at: usize) -> bool {
        self.rails[at].is_none() && !self.above[at]
    }

    fn nearest(&self, near: usize, is_free: impl Fn(&usize) -> bool) -> Option<usize> {
        let free = (0..self.rails.len()).filter(is_free);
        free.min_by_key(|at| (at.abs_diff(near), *at))
    }

    /// Lets the step's own rail begin, or leads the step to the rail that it shares; gives the place of that.
    fn leave(&mut self, step: usize, own: usize, places: &mut [Place]) -> Option<usize> {
        let net = self.graph.leaves_by[step]?;
        if self.graph.nets[net].sources.len() == 1 {
            if own < self.rails.len() {
                self.rails[own] = Some(net);
                self.rail_of[net] = Some(own);
                places[own].down = true;
            }
            return None;
        }
        let is_first = self.graph.nets[net].sources[0] == step;
        if is_first {
            let taken = self.rails.get(own).copied().flatten();
            assert!(taken.is_none(), "a step stands on a free rail");
            // With a place between, so that those that feed it can take turns as well; but not where a rail ends right now.
            let is_free = |at: &usize| *at != own && self.is_free(*at) && !places[*at].up;
            let right = (own + 2..self.rails.len()).find(is_free);
            let at = right.or_else(|| self.nearest(own, is_free))?;
            self.rails[at] = Some(net);
            self.rail_of[net] = Some(at);
            places[at].down = true;
        }
        self.rail_of[net]
    }
}

fn write(places: &[Place], own: usize, fed: Option<usize>, row: &mut Row) {
    let n_used = (0..places.len())
        .rev()
        .find(|at| *at == own || places[*at].up || places[*at].down || places[*at].left)
        .map_or(0, |last| last + 1);
    for (at, place) in places.iter().enumerate().take(n_used) {
        let text = if at <= own {
            &mut row.before
        } else {
            &mut row.after
        };
        if at > 0 {
            text.push(match fed {
                _ if !place.left => ' ',
                Some(fed) if fed == at && fed > own => '→',
                Some(fed) if fed + 1 == at && fed < own => '←',
                _ => '─',
            });
        }
        if at != own {
            text.push(place.sign());
        }
    }
}

impl Place {
    fn sign(self) -> char {
        match (self.up, self.down, self.joins) {
            // A rail that passes by lies above the way that crosses it.
            (true, true, false) => '│',
            (false, false, _) | (_, _, false) if self.left || self.right => '─',
            (false, false, _) | (_, _, false) => ' ',
            (true, true, true) => match (self.left, self.right) {
                (true, true) => '┼',
                (true, false) => '┤',
                _ => '├',
            },
            (true, false, true) => match (self.left, self.right) {
                (true, true) => '┴',
                (true, false) => '╯',
                _ => '╰',
            },
            (false, true, true) => match (self.left, self.right) {
                (true, true) => '┬',
                (true, false) => '╮',
                _ => '╭',
            },
        }
    }
}

#[cfg(test)]
mod tests;
