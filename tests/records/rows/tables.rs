//! All rows of a database, read without the store.

use std::path::Path;

use escapement_model::hex;
use rusqlite::Connection;
use rusqlite::types::ValueRef;

/// A table, and its rows in the order of their first columns, each value as SQL writes it.
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns a statement for each row, which writes it.
    pub(crate) fn statements(&self) -> String {
        let columns = self.columns.join(", ");
        let statement = |row: &Vec<String>| {
            let values = row.join(", ");
            format!("INSERT INTO {} ({columns}) VALUES ({values});\n", self.name)
        };
        self.rows.iter().map(statement).collect()
    }
}

/// Returns all tables of a database, by name.
pub(crate) fn tables_of(path: &Path) -> Vec<Table> {
    let database = Connection::open(path).unwrap();
    let mut names = database
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        .unwrap();
    let names = names.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let names = names.map(Result::unwrap);
    names.map(|name| table_of(&database, name)).collect()
}

fn table_of(database: &Connection, name: String) -> Table {
    let sql = format!("SELECT * FROM {name} ORDER BY 1, 2");
    let mut select = database.prepare(&sql).unwrap();
    let columns: Vec<String> = select.column_names().map(str::to_owned).collect();
    let values = |row: &rusqlite::Row<'_>| (0..columns.len()).map(|n| Ok(value(row.get_ref(n)?))).collect();
    let rows = select.query_map([], values).unwrap();
    let rows = rows.map(Result::unwrap).collect();
    Table { name, columns, rows }
}

fn value(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => NULL.to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(_) => panic!("no column has such numbers"),
        ValueRef::Text(text) => format!("'{}'", std::str::from_utf8(text).unwrap().replace('\'', "''")),
        ValueRef::Blob(bytes) => format!("x'{}'", hex::text(bytes)),
    }
}

/// A value that is not set.
pub(crate) const NULL: &str = "NULL";
