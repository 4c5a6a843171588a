//! The short file of what is watched, read.

use escapement_tests::checkout;

/// What is watched.
pub(crate) struct Watched {
    pub(crate) dashboards: Vec<Dashboard>,
    pub(crate) alerts: Vec<Alert>,
}

/// One dashboard.
pub(crate) struct Dashboard {
    pub(crate) name: String,
    /// What it answers.
    pub(crate) about: String,
    pub(crate) panels: Vec<Panel>,
}

impl Dashboard {
    /// The job that Prometheus scrapes for it.
    pub(crate) fn job(&self) -> &'static str {
        match self.name.as_str() {
            "Workers" => "escapement-worker",
            _ => "escapement",
        }
    }
}

/// One panel, with the expression as it is written.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) unit: String,
    pub(crate) legend: String,
    pub(crate) expression: String,
}

/// One alert, with the expression as it is written.
pub(crate) struct Alert {
    pub(crate) name: String,
    pub(crate) severity: String,
    pub(crate) lasting: String,
    pub(crate) condition: String,
    pub(crate) expression: String,
    pub(crate) summary: String,
}

impl Watched {
    pub(crate) fn read() -> Self {
        let file = checkout::root().join("deploy/monitoring/watched.txt");
        let text = std::fs::read_to_string(file).unwrap();
        let mut watched = Self {
            dashboards: Vec::new(),
            alerts: Vec::new(),
        };
        for section in text.split("\n== ").skip(1) {
            let (heading, rows) = section.split_once('\n').unwrap();
            // The first row names the columns.
            let rows = rows.lines().filter(|row| !row.is_empty()).skip(1);
            match heading.split_once(": ") {
                None => watched.alerts.extend(rows.map(Alert::read)),
                Some((name, about)) => watched.dashboards.push(Dashboard {
                    name: name.to_owned(),
                    about: about.to_owned(),
                    panels: rows.map(Panel::read).collect(),
                }),
            }
        }
        assert!(!watched.dashboards.is_empty() && !watched.alerts.is_empty());
        watched
    }

    /// All expressions as they are written.
    pub(crate) fn expressions(&self) -> Vec<String> {
        let panels = self.dashboards.iter().flat_map(|dashboard| &dashboard.panels);
        let panels = panels.map(|panel| panel.expression.clone());
        panels
            .chain(self.alerts.iter().map(|alert| alert.expression.clone()))
            .collect()
    }
}

impl Panel {
    fn read(row: &str) -> Self {
        let [title, unit, legend, expression] = cells(row);
        Self {
            title,
            unit,
            legend,
            expression,
        }
    }
}

impl Alert {
    fn read(row: &str) -> Self {
        let [name, severity, lasting, condition, expression, summary] = cells(row);
        Self {
            name,
            severity,
            lasting,
            condition,
            expression,
            summary,
        }
    }
}

fn cells<const N: usize>(row: &str) -> [String; N] {
    let cells: Vec<String> = row.split(" | ").map(str::to_owned).collect();
    cells.try_into().unwrap_or_else(|_| panic!("{N} cells in {row}"))
}

/// Puts matchers into all braces of an expression.
pub(crate) fn with_matchers(expression: &str, matchers: &str) -> String {
    let full = expression.replace('{', &format!("{{{matchers},"));
    full.replace(",}", "}")
}
