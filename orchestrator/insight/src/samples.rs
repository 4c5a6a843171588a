//! Scenes for the unit tests: graphs by number. Draws nothing.

use super::scene::{Scene, Step};
use escapement_model::StepId;

/// A scene whose steps depend on each other like this.
pub(super) fn scene(dependencies: &[Vec<usize>]) -> Scene {
    let step = |(at, depends_on): (usize, &Vec<usize>)| {
        let mut id = [7; 16];
        id[..4].copy_from_slice(&u32::try_from(at).expect("samples are small").to_be_bytes());
        Step {
            depends_on: depends_on.clone(),
            ..Step::new(StepId::from_random(id), "work")
        }
    };
    let mut scene = Scene {
        name: "sample".to_owned(),
        steps: dependencies.iter().enumerate().map(step).collect(),
        has_graph: true,
        story: None,
    };
    scene.shorten_ids();
    scene
}

/// Graphs that differ in size, breadth and density, and some that people would draw.
pub(super) fn graphs() -> Vec<Vec<Vec<usize>>> {
    let mut graphs = vec![
        vec![],
        vec![vec![]],
        vec![vec![], vec![], vec![]],
        vec![vec![], vec![0], vec![0], vec![1, 2]],
        (0..12).map(|at| (0..at).collect()).collect(),
        (0..14)
            .map(|at| if at < 7 { vec![] } else { (0..7).collect() })
            .collect(),
        std::iter::once(vec![])
            .chain((0..9).map(|_| vec![0]))
            .chain([(1..10).collect()])
            .collect(),
    ];
    let mut dice = Dice(1);
    for n_steps in [2, 5, 9, 17, 33] {
        for density in [5, 15, 40, 80] {
            for _ in 0..4 {
                let window = 1 + dice.below(n_steps);
                let graph = (0..n_steps).map(|at| {
                    let from = at - window.min(at);
                    (from..at).filter(|_| dice.below(100) < density).collect()
                });
                graphs.push(graph.collect());
            }
        }
    }
    graphs
}

/// By step everything that it depends on, however indirectly.
pub(super) fn closure(dependencies: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut closure: Vec<Vec<usize>> = Vec::new();
    for sources in dependencies {
        let mut all: Vec<usize> = sources
            .iter()
            .flat_map(|source| closure[*source].clone())
            .collect();
        all.extend(sources);
        all.sort_unstable();
        all.dedup();
        closure.push(all);
    }
    closure
}

/// The same numbers every time.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n.max(1)
    }
}
