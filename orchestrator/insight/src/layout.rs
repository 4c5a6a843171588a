//! Places for a graph in layers: orders each layer so that few lines cross, and moves steps beside what they hang on.
//! Knows a main direction, in which the layers follow each other, and a cross direction; not which of them is down.

mod ordering;

use super::graph::Graph;
use std::collections::BTreeMap;

/// How large things are, in both directions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Of a step.
    pub(super) step_main: f64,
    /// Of a step.
    pub(super) step_cross: f64,
    /// Between two steps of a layer.
    pub(super) gap_cross: f64,
}

/// Where everything stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// First the steps by their places in the scene, then what lines lead through.
    pub(super) items: Vec<Item>,
    /// From item to item.
    pub(super) lines: Vec<(usize, usize)>,
    /// Length of the whole.
    pub(super) main: f64,
    /// Breadth of the whole.
    pub(super) cross: f64,
}

/// Something that lines lead to, from, or through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) kind: Kind,
    /// Twice the layer; odd between two layers.
    level: usize,
    /// Where it begins.
    pub(super) from: f64,
    /// Where it ends.
    pub(super) to: f64,
    /// The middle of its breadth.
    pub(super) cross: f64,
    /// Its place among those of its level.
    rank: usize,
}

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A step.
    Step,
    /// A line passes a layer here.
    Pass,
    /// Lines of several steps meet here, between two layers.
    Meet,
}

impl Layout {
    /// Places a graph.
    pub(super) fn of(graph: &Graph, sizes: Sizes) -> Self {
        let mut layout = Self::items(graph);
        let mut levels = layout.levels();
        let beside = Beside::of(&layout);
        layout.order(&mut levels, &beside);
        layout.place(&levels, &beside, sizes);
        layout.stretch(graph.n_layers(), sizes);
        layout
    }

    fn items(graph: &Graph) -> Self {
        let mut layout = Self::default();
        for layer in &graph.layers {
            layout.add(Kind::Step, 2 * layer);
        }
        let length = |(first, last): (usize, usize)| last.saturating_sub(first + 1);
        let mut n_passes_max = usize::MAX;
        let spans: Vec<(usize, usize)> = (0..graph.nets.len()).map(|net| span(graph, net)).collect();
        while spans
            .iter()
            .map(|span| length(*span))
            .filter(|n| *n <= n_passes_max)
            .sum::<usize>()
            > PASSES_MAX
        {
            n_passes_max = n_passes_max.min(graph.n_layers()) / 2;
        }
        for (net, span) in spans.iter().enumerate() {
            layout.route(graph, net, *span, length(*span) <= n_passes_max);
        }
        layout
    }

    /// Leads a net from its sources to its targets along one trunk, which passes the layers between.
    fn route(&mut self, graph: &Graph, net: usize, (first, last): (usize, usize), has_passes: bool) {
        let net = &graph.nets[net];
        let is_bundle = net.sources.len() > 1;
        let meets_before = net
            .targets
            .iter()
            .map(|target| graph.layers[*target])
            .min()
            .unwrap_or(last);
        let meeting = is_bundle.then(|| self.add(Kind::Meet, 2 * meets_before - 1));
        let passes: BTreeMap<usize, usize> = if has_passes {
            (first + 1..last)
                .map(|layer| (layer, self.add(Kind::Pass, 2 * layer)))
                .collect()
        } else {
            BTreeMap::new()
        };
        // Where the trunk is when it leaves a layer.
        let mut trunk = if is_bundle {
            None
        } else {
            net.sources.first().copied()
        };
        let mut leaves = BTreeMap::new();
        for layer in first..last {
            let pass = passes.get(&layer).copied();
            if is_bundle && layer < meets_before {
                trunk = self.joined(trunk, pass);
                if layer + 1 == meets_before {
                    self.lines.extend(trunk.zip(meeting));
                    trunk = meeting;
                }
            } else {
                trunk = self.joined(trunk, pass);
            }
            leaves.insert(layer, trunk);
        }
        if let Some(meeting) = meeting {
            for source in &net.sources {
                let layer = graph.layers[*source] + 1;
                let to = if layer < meets_before {
                    passes.get(&layer).copied()
                } else {
                    None
                };
                self.lines.push((*source, to.unwrap_or(meeting)));
            }
        }
        for target in &net.targets {
            let from = leaves.get(&(graph.layers[*target] - 1)).copied().flatten();
            self.lines.extend(from.map(|from| (from, *target)));
        }
    }

    /// Leads the trunk on to the next pass.
    fn joined(&mut self, trunk: Option<usize>, pass: Option<usize>) -> Option<usize> {
        self.lines.extend(trunk.zip(pass));
        pass.or(trunk)
    }

    fn add(&mut self, kind: Kind, level: usize) -> usize {
        self.items.push(Item {
            kind,
            level,
            from: 0.0,
            to: 0.0,
            cross: 0.0,
            rank: 0,
        });
        self.items.len() - 1
    }

    fn levels(&mut self) -> Vec<Vec<usize>> {
        let n_levels = self.items.iter().map(|item| item.level + 1).max().unwrap_or(0);
        let mut levels = vec![Vec::new(); n_levels];
        for (at, item) in self.items.iter_mut().enumerate() {
            item.rank = levels[item.level].len();
            levels[item.level].push(at);
        }
        levels
    }

    /// Moves the items of each level as near to what they hang on as order and distances allow.
    fn place(&mut self, levels: &[Vec<usize>], beside: &Beside, sizes: Sizes) {
        for sweep in 0..PLACING_SWEEPS {
            // The last sweep goes down, so that a step stands straight behind the one that it alone hangs on.
            let is_down = sweep % 2 == 0;
            for at in 0..levels.len() {
                let level = &levels[if is_down { at } else { levels.len() - 1 - at }];
                let wanted: Vec<(f64, f64)> = level
                    .iter()
                    .map(|item| {
                        let (before, after) = (&beside.before[*item], &beside.after[*item]);
                        let places =
                            |items: &[usize]| mean(items.iter().map(|other| self.items[*other].cross));
                        let toward = places(if is_down { before } else { after });
                        match toward {
                            Some(cross) if self.items[*item].kind == Kind::Pass => (cross, PASS_WEIGHT),
                            Some(cross) => (cross, 1.0),
                            None => (self.items[*item].cross, NOTHING_WEIGHT),
                        }
                    })
                    .collect();
                self.spread(level, &wanted, sizes);
            }
        }
        let breadth = |item: &Item| sizes.breadth(item.kind) / 2.0;
        let first = self
            .items
            .iter()
            .map(|item| item.cross - breadth(item))
            .fold(f64::INFINITY, f64::min);
        for item in &mut self.items {
            item.cross -= first;
        }
        self.cross = self
            .items
            .iter()
            .map(|item| item.cross + breadth(item))
            .fold(0.0, f64::max);
    }

    /// The places nearest to the wanted ones, in the sense of least squares, that keep order and distances:
    /// neighbours that would overlap are pooled and move together.
    fn spread(&mut self, level: &[usize], wanted: &[(f64, f64)], sizes: Sizes) {
        let mut offset = 0.0;
        let mut offsets = Vec::with_capacity(level.len());
        let mut pools: Vec<(f64, f64, usize)> = Vec::new();
        for (at, item) in level.iter().enumerate() {
            if at > 0 {
                offset += sizes.distance(self.items[level[at - 1]].kind, self.items[*item].kind);
            }
            offsets.push(offset);
            let mut pool = (wanted[at].0 - offset, wanted[at].1, 1);
            while let Some(before) = pools.pop_if(|before| before.0 >= pool.0) {
                let weight = before.1 + pool.1;
                pool = (
                    (before.0 * before.1 + pool.0 * pool.1) / weight,
                    weight,
                    before.2 + pool.2,
                );
            }
            pools.push(pool);
        }
        let places = pools.iter().flat_map(|pool| std::iter::repeat_n(pool.0, pool.2));
        for ((item, offset), place) in level.iter().zip(offsets).zip(places) {
            self.items[*item].cross = place + offset;
        }
    }

    /// Sets the layers one behind the other, farther apart where lines between them are steep.
    fn stretch(&mut self, n_layers: usize, sizes: Sizes) {
        let mut steepest = vec![0.0_f64; n_layers];
        for (from, to) in &self.lines {
            let (from, to) = (self.items[*from], self.items[*to]);
            let gap = &mut steepest[(from.level / 2).min(n_layers - 1)];
            *gap = gap.max((from.cross - to.cross).abs());
        }
        let mut begins = Vec::with_capacity(n_layers + 1);
        let mut main = 0.0;
        for steepest in steepest {
            begins.push(main);
            main += sizes.step_main + (steepest * STEEPNESS).clamp(GAP_MAIN_MIN, GAP_MAIN_MAX);
        }
        self.main = begins.last().map_or(0.0, |last| last + sizes.step_main);
        for item in &mut self.items {
            let layer = item.level / 2;
            let end = begins[layer] + sizes.step_main;
            (item.from, item.to) = match item.kind {
                Kind::Step | Kind::Pass => (begins[layer], end),
                Kind::Meet => {
                    let next = begins.get(layer + 1).copied().unwrap_or(end);
                    let middle = end + (next - end) * MEETING_AT;
                    (middle, middle)
                }
            };
        }
    }
}

impl Sizes {
    fn breadth(&self, kind: Kind) -> f64 {
        match kind {
            Kind::Step => self.step_cross,
            Kind::Pass | Kind::Meet => LINE_BREADTH,
        }
    }

    /// Between the middles of two neighbours.
    fn distance(&self, one: Kind, other: Kind) -> f64 {
        let gap = if one == Kind::Step && other == Kind::Step {
            self.gap_cross
        } else {
            LINE_GAP
        };
        f64::midpoint(self.breadth(one), self.breadth(other)) + gap
    }
}

/// By item: those before and after it on its lines.
struct Beside {
    before: Vec<Vec<usize>>,
    after: Vec<Vec<usize>>,
}

impl Beside {
    fn of(layout: &Layout) -> Self {
        let nothing = vec![Vec::new(); layout.items.len()];
        let mut beside = Self {
            before: nothing.clone(),
            after: nothing,
        };
        for (from, to) in &layout.lines {
            beside.after[*from].push(*to);
            beside.before[*to].push(*from);
        }
        beside
    }
}

/// From the first layer of the sources to the last one of the targets.
fn span(graph: &Graph, net: usize) -> (usize, usize) {
    let net = &graph.nets[net];
    let layers = |steps: &[usize]| steps.iter().map(|step| graph.layers[*step]).collect::<Vec<_>>();
    let first = layers(&net.sources).into_iter().min().unwrap_or(0);
    let last = layers(&net.targets).into_iter().max().unwrap_or(0);
    (first, last)
}

fn mean(places: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = places.fold((0.0, 0_u32), |(sum, n), place| (sum + place, n + 1));
    (n > 0).then(|| sum / f64::from(n))
}

/// Places at which lines pass layers; longer lines then go straight on, behind the steps.
const PASSES_MAX: usize = 8_192;
const PLACING_SWEEPS: usize = 13;
/// Long lines are to be straight before steps are near.
const PASS_WEIGHT: f64 = 3.0;
/// What hangs on nothing is moved by everything.
const NOTHING_WEIGHT: f64 = 0.01;
const LINE_BREADTH: f64 = 4.0;
const LINE_GAP: f64 = 10.0;
const STEEPNESS: f64 = 0.16;
const GAP_MAIN_MIN: f64 = 52.0;
const GAP_MAIN_MAX: f64 = 150.0;
/// The part of a gap at which lines meet.
const MEETING_AT: f64 = 0.55;

#[cfg(test)]
mod tests;
