//! Gives a test process the fault that its environment names, so that a suite can show that it would be caught.

use escapement_model::planted;

/// Plants the fault that `ESCAPEMENT_PLANTED_BUG` names, if it names one. Release builds have none to plant.
///
/// # Panics
/// Where there is no fault of that name.
pub fn arm() {
    #[cfg(debug_assertions)]
    if let Ok(name) = std::env::var(planted::VARIABLE) {
        let bug = planted::Bug::from_name(&name);
        planted::plant(bug.unwrap_or_else(|| panic!("no fault {name} can be planted")));
    }
    #[cfg(not(debug_assertions))]
    let _none = planted::VARIABLE;
}
