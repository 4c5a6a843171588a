//! Layouts are judged by what an eye would see: nothing overlaps, lines go on, and they lead where they must.

use super::super::graph::Graph;
use super::super::samples::{closure, graphs, scene};
use super::{Kind, Layout, Sizes};

const SIZES: Sizes = Sizes {
    step_main: 200.0,
    step_cross: 40.0,
    gap_cross: 10.0,
};

fn layouts() -> impl Iterator<Item = (Vec<Vec<usize>>, Layout)> {
    let bundled = graphs()
        .into_iter()
        .flat_map(|graph| [(2, graph.clone()), (100, graph)]);
    bundled.map(|(n_bundled_min, graph)| {
        let layout = Layout::of(&Graph::of(&scene(&graph), n_bundled_min), SIZES);
        (graph, layout)
    })
}

#[test]
fn no_step_touches_another_and_no_line_passes_through_one() {
    for (graph, layout) in layouts() {
        for (at, one) in layout.items.iter().enumerate() {
            for other in &layout.items[at + 1..] {
                if one.level != other.level
                    || one.kind == Kind::Meet
                    || (one.kind, other.kind) == (Kind::Pass, Kind::Pass)
                {
                    continue;
                }
                let apart = (one.cross - other.cross).abs();
                let breadth = if (one.kind, other.kind) == (Kind::Step, Kind::Step) {
                    50.0
                } else {
                    20.0
                };
                assert!(apart > breadth - 0.001, "{one:?} {other:?} in {graph:?}");
            }
        }
    }
}

#[test]
fn every_line_leads_to_a_later_layer() {
    for (graph, layout) in layouts() {
        for (from, to) in &layout.lines {
            let (from, to) = (&layout.items[*from], &layout.items[*to]);
            assert!(from.to < to.from, "{from:?} {to:?} in {graph:?}");
        }
    }
}

#[test]
fn the_lines_lead_from_each_step_to_those_that_depend_on_it() {
    for (graph, layout) in layouts() {
        let mut dependencies = vec![Vec::new(); graph.len()];
        for (step, depends_on) in dependencies.iter_mut().enumerate() {
            let mut open: Vec<usize> = vec![step];
            while let Some(item) = open.pop() {
                for (from, to) in &layout.lines {
                    match layout.items[*from].kind {
                        _ if *to != item => {}
                        Kind::Step => depends_on.push(*from),
                        Kind::Pass | Kind::Meet => open.push(*from),
                    }
                }
            }
        }
        assert_eq!(closure(&dependencies), closure(&graph), "{graph:?}");
    }
}

#[test]
fn everything_lies_within_the_whole() {
    for (graph, layout) in layouts() {
        for item in &layout.items {
            let breadth = SIZES.breadth(item.kind) / 2.0;
            assert!(
                item.from >= 0.0 && item.to <= layout.main + 0.001,
                "{item:?} in {graph:?}"
            );
            assert!(
                item.cross - breadth >= -0.001 && item.cross + breadth <= layout.cross + 0.001,
                "{item:?}"
            );
        }
    }
}

#[test]
fn a_chain_is_straight() {
    let chain: Vec<Vec<usize>> = (0..8_usize)
        .map(|at| at.checked_sub(1).into_iter().collect())
        .collect();
    let layout = Layout::of(&Graph::of(&scene(&chain), 3), SIZES);
    assert!(
        layout
            .items
            .iter()
            .all(|item| item.cross == layout.items[0].cross),
        "{layout:?}"
    );
}

#[test]
fn two_chains_that_are_told_crosswise_are_drawn_without_a_crossing() {
    let graph = [vec![], vec![], vec![1], vec![0], vec![3], vec![2]];
    let layout = Layout::of(&Graph::of(&scene(&graph), 3), SIZES);
    assert_eq!(layout.n_crossings(), 0, "{layout:?}");
}
