//! The dependencies of a scene made fit to be drawn: those that others imply left out, those that many steps share bundled.
//! Places nothing.

use super::scene::Scene;
use std::collections::BTreeMap;

/// The dependencies that are drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Graph {
    /// Each leads from all of its sources to all of its targets; a step is a source of one at most.
    pub nets: Vec<Net>,
    /// By step: the net of which it is a source.
    pub leaves_by: Vec<Option<usize>>,
    /// By step: the nets that lead to it, by their first sources.
    pub enters_by: Vec<Vec<usize>>,
    /// By step: how many steps the longest path to it has, but steps without dependencies stand right before the first that need them.
    pub layers: Vec<usize>,
    /// Dependencies of the plan.
    pub n_dependencies: usize,
    /// Those that are left out, because others lead there too.
    pub n_implied: usize,
}

/// Dependencies of each of some steps on each of some others.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Net {
    /// Ascending; one, or at least as many as are worth a bundle.
    pub sources: Vec<usize>,
    /// Ascending; all of them after all sources.
    pub targets: Vec<usize>,
}

impl Graph {
    /// The graph of a scene; steps whose dependents are the same share a net if there are many of them.
    pub(super) fn of(scene: &Scene, n_bundled_min: usize) -> Self {
        let n_steps = scene.steps.len();
        let dependencies = reduced(scene);
        let mut dependents = vec![Vec::new(); n_steps];
        for (step, sources) in dependencies.iter().enumerate() {
            for source in sources {
                dependents[*source].push(step);
            }
        }
        let nets = nets(&dependents, n_bundled_min);
        let mut graph = Self {
            leaves_by: vec![None; n_steps],
            enters_by: vec![Vec::new(); n_steps],
            layers: layers(&dependencies, &dependents),
            n_dependencies: scene.steps.iter().map(|step| step.depends_on.len()).sum(),
            ..Self::default()
        };
        graph.n_implied = graph.n_dependencies - dependencies.iter().map(Vec::len).sum::<usize>();
        for (at, net) in nets.iter().enumerate() {
            for source in &net.sources {
                graph.leaves_by[*source] = Some(at);
            }
            for target in &net.targets {
                graph.enters_by[*target].push(at);
            }
        }
        graph.nets = nets;
        graph
    }

    /// How many layers there are.
    pub(super) fn n_layers(&self) -> usize {
        self.layers.iter().max().map_or(0, |last| last + 1)
    }
}

/// By step the dependencies that no other dependency of it implies, ascending.
fn reduced(scene: &Scene) -> Vec<Vec<usize>> {
    let n_words = scene.steps.len().div_ceil(64);
    let mut above: Vec<Vec<u64>> = Vec::with_capacity(scene.steps.len());
    let mut reduced = Vec::with_capacity(scene.steps.len());
    for step in &scene.steps {
        let mut reached = vec![0_u64; n_words];
        let mut kept = Vec::new();
        // What comes later in canonical order can imply what comes earlier, and never the other way round.
        for source in step.depends_on.iter().rev() {
            if reached[source / 64] >> (source % 64) & 1 == 1 {
                continue;
            }
            kept.push(*source);
            for (word, more) in reached.iter_mut().zip(&above[*source]) {
                *word |= more;
            }
            reached[source / 64] |= 1 << (source % 64);
        }
        kept.reverse();
        above.push(reached);
        reduced.push(kept);
    }
    reduced
}

/// Groups the steps by their dependents; small groups are taken apart.
fn nets(dependents: &[Vec<usize>], n_bundled_min: usize) -> Vec<Net> {
    let mut groups: BTreeMap<&[usize], Vec<usize>> = BTreeMap::new();
    for (source, targets) in dependents
        .iter()
        .enumerate()
        .filter(|(_, targets)| !targets.is_empty())
    {
        groups.entry(targets).or_default().push(source);
    }
    let mut nets = Vec::new();
    for (targets, sources) in groups {
        let targets = targets.to_vec();
        if sources.len() >= n_bundled_min {
            nets.push(Net { sources, targets });
        } else {
            nets.extend(sources.into_iter().map(|source| Net {
                sources: vec![source],
                targets: targets.clone(),
            }));
        }
    }
    nets.sort_unstable_by_key(|net| net.sources[0]);
    nets
}

fn layers(dependencies: &[Vec<usize>], dependents: &[Vec<usize>]) -> Vec<usize> {
    let mut layers: Vec<usize> = Vec::with_capacity(dependencies.len());
    for sources in dependencies {
        let layer = sources
            .iter()
            .map(|source| layers[*source] + 1)
            .max()
            .unwrap_or(0);
        layers.push(layer);
    }
    for (step, targets) in dependents.iter().enumerate() {
        let first_needed = targets.iter().map(|target| layers[*target]).min();
        if let (true, Some(first_needed)) = (dependencies[step].is_empty(), first_needed) {
            layers[step] = first_needed - 1;
        }
    }
    layers
}
