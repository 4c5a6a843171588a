//! Which stretches of which indexes have what a list may show. Reads nothing.

use escapement_model::Namespace;
use rusqlite::types::Value;

use super::Stretch;
use crate::runs::definitions::Scope;
use crate::runs::stored::RunFilter;

/// Objects of one owner, or of all, in these namespaces, or in all.
#[derive(Clone, Debug, Default)]
struct Part {
    owner: Option<String>,
    namespaces: Option<Vec<Namespace>>,
}

/// Groups the scopes by owner. An object within several groups is found in each.
fn parts(scopes: Option<&[Scope]>) -> Vec<Part> {
    let Some(scopes) = scopes else {
        return vec![Part::default()];
    };
    let mut parts: Vec<Part> = Vec::new();
    for Scope { namespace, owner } in scopes {
        let same = parts.iter_mut().find(|part| part.owner == *owner);
        match (same, namespace) {
            (Some(part), None) => part.namespaces = None,
            (Some(part), Some(name)) => {
                // Every namespace is there already.
                let Some(names) = &mut part.namespaces else {
                    continue;
                };
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
            (None, _) => parts.push(Part {
                owner: owner.clone(),
                namespaces: namespace.clone().map(|name| vec![name]),
            }),
        }
    }
    parts
}

/// The stretches in which the runs of a filter lie.
pub(in crate::runs::tables) fn of_runs(filter: &RunFilter) -> Vec<Stretch> {
    let parts = parts(filter.scopes.as_deref());
    let of_part =
        |part| of_a_link(filter, part).map_or_else(|| of_many(filter, part), |stretch| vec![stretch]);
    let mut stretches: Vec<Stretch> = parts.iter().flat_map(of_part).collect();
    if filter.is_live {
        for stretch in stretches.iter_mut().filter(|stretch| stretch.index != LIVE) {
            stretch.wanted.push_str(" AND ended_at IS NULL");
        }
    }
    stretches
}

/// If the filter names what runs belong to: few belong to one.
fn of_a_link(filter: &RunFilter, part: &Part) -> Option<Stretch> {
    let text = |text: &Option<String>| text.clone().map(Value::Text);
    // Those that let the fewest through come first.
    let links = [
        (
            "parent",
            "run_by_parent",
            filter.parent.map(|id| Value::Blob(id.as_bytes().to_vec())),
        ),
        ("session", "run_by_session", text(&filter.session)),
        ("trigger_id", "run_by_trigger", text(&filter.trigger)),
        ("plan", "run_by_plan", text(&filter.plan)),
        ("goal", "run_by_goal", text(&filter.goal)),
    ];
    let mut links = links
        .into_iter()
        .filter_map(|(column, index, value)| Some((column, index, value?)));
    let (column, index, value) = links.next()?;
    let first = Stretch::new(RUN, index).within(column, value);
    let stretch = links.fold(first, |stretch, (column, _, value)| {
        stretch.wanted(column, [value])
    });
    let stretch = stretch
        .wanted("owner", text(&part.owner))
        .wanted("state", states_of(filter));
    Some(stretch.wanted_namespaces(part.namespaces.as_deref()))
}

fn states_of(filter: &RunFilter) -> impl Iterator<Item = Value> {
    filter.states.iter().map(|state| Value::Integer((*state).into()))
}

fn of_many(filter: &RunFilter, part: &Part) -> Vec<Stretch> {
    let states = || states_of(filter);
    let owner = part.owner.clone().map(Value::Text);
    let namespaces = part.namespaces.as_deref();
    let few = namespaces.filter(|these| these.len() * filter.states.len().max(1) <= STRETCHES_MAX);
    match (owner, filter.states.is_empty(), few) {
        (Some(owner), false, _) if filter.is_live => states()
            .map(|state| {
                let stretch = Stretch::new(RUN, LIVE).within_live();
                let stretch = stretch.within("owner", owner.clone()).within("state", state);
                stretch.wanted_namespaces(namespaces)
            })
            .collect(),
        (Some(owner), _, Some(few)) => few
            .iter()
            .map(|namespace| {
                let stretch = Stretch::new(RUN, "run_by_namespace_and_owner").within_namespace(namespace);
                stretch.within("owner", owner.clone()).wanted("state", states())
            })
            .collect(),
        (Some(owner), _, None) => {
            let stretch = Stretch::new(RUN, "run_by_owner").within("owner", owner);
            vec![stretch.wanted("state", states()).wanted_namespaces(namespaces)]
        }
        (None, true, Some(few)) => few
            .iter()
            .map(|namespace| Stretch::new(RUN, "run_by_namespace").within_namespace(namespace))
            .collect(),
        (None, false, Some(few)) => few
            .iter()
            .flat_map(|namespace| {
                states().map(move |state| {
                    let stretch = Stretch::new(RUN, "run_by_namespace_and_state");
                    stretch.within_namespace(namespace).within("state", state)
                })
            })
            .collect(),
        (None, false, None) => states()
            .map(|state| {
                let stretch = Stretch::new(RUN, "run_by_state").within("state", state);
                stretch.wanted_namespaces(namespaces)
            })
            .collect(),
        (None, true, None) => vec![Stretch::new(RUN, "run_in_order").wanted_namespaces(namespaces)],
    }
}

/// The stretches in which definitions of that kind lie, in these scopes or in all.
pub(in crate::runs::tables) fn of_definitions(kind: u8, scopes: Option<&[Scope]>) -> Vec<Stretch> {
    let parts = parts(scopes);
    parts.iter().flat_map(|part| definitions_of(kind, part)).collect()
}

fn definitions_of(kind: u8, part: &Part) -> Vec<Stretch> {
    let owner = part.owner.clone().map(Value::Text);
    let namespaces = part.namespaces.as_deref();
    let stretch = |index| Stretch::new("definition", index).within("kind", Value::Integer(kind.into()));
    match (owner, namespaces.filter(|these| these.len() <= STRETCHES_MAX)) {
        (Some(owner), Some(few)) => few
            .iter()
            .map(|namespace| {
                let stretch = stretch("definition_by_namespace_and_owner").within_namespace(namespace);
                stretch.within("owner", owner.clone())
            })
            .collect(),
        (Some(owner), None) => {
            let stretch = stretch("definition_by_owner").within("owner", owner);
            vec![stretch.wanted_namespaces(namespaces)]
        }
        (None, Some(few)) => few
            .iter()
            .map(|namespace| stretch("definition_by_namespace").within_namespace(namespace))
            .collect(),
        (None, None) => vec![stretch("definition_in_order").wanted_namespaces(namespaces)],
    }
}

/// Returns the stretches with open input requests, in these scopes or in all.
pub(super) fn of_requests(scopes: Option<&[Scope]>) -> Vec<Stretch> {
    parts(scopes).iter().flat_map(requests_of).collect()
}

fn requests_of(part: &Part) -> Vec<Stretch> {
    let owner = part.owner.clone().map(Value::Text);
    let namespaces = part.namespaces.as_deref();
    let stretch = |index| Stretch::new("input_request", index).within_open();
    match (owner, namespaces.filter(|these| these.len() <= STRETCHES_MAX)) {
        (Some(owner), Some(few)) => few
            .iter()
            .map(|namespace| {
                let stretch = stretch("input_request_by_namespace_and_owner").within_namespace(namespace);
                stretch.within("owner", owner.clone())
            })
            .collect(),
        (Some(owner), None) => {
            let stretch = stretch("input_request_by_owner").within("owner", owner);
            vec![stretch.wanted_namespaces(namespaces)]
        }
        (None, Some(few)) => few
            .iter()
            .map(|namespace| stretch("input_request_by_namespace").within_namespace(namespace))
            .collect(),
        (None, None) => vec![stretch("input_request_open").wanted_namespaces(namespaces)],
    }
}

const RUN: &str = "run";
/// The index of what owners have under way.
const LIVE: &str = "run_live_by_owner";
/// Stretches that are put together for one page; with more, rows of other namespaces are looked at.
const STRETCHES_MAX: usize = 64;
