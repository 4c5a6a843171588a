//! Gives the stories the fault that their environment names, so that they can be seen to catch it. Tests nothing.

/// A fault that these stories are to catch, if the environment names one.
pub fn plant_what_the_environment_names() {
    #[cfg(debug_assertions)]
    {
        use escapement_model::planted::{Bug, VARIABLE, plant};
        if let Some(bug) = std::env::var(VARIABLE)
            .ok()
            .and_then(|name| Bug::from_name(&name))
        {
            plant(bug);
        }
    }
}
