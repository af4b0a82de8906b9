// Starts `sparkcep lsp` for SQL files, dbt models and notebook cells. The settings are in package.json.
const { LanguageClient } = require("vscode-languageclient/node");
const vscode = require("vscode");

let client;

async function start() {
  const settings = vscode.workspace.getConfiguration("sparkcep");
  const [command, ...args] = settings.get("command");
  const languages = ["sql", "jinja-sql", "sql-jinja", "databricks-sql", "python"];
  client = new LanguageClient(
    "sparkcep",
    "sparkcep",
    { command, args },
    {
      documentSelector: languages.map((language) => ({ language })),
      initializationOptions: {
        docs: settings.get("docs"),
        doubleQuotedIdentifiers: settings.get("doubleQuotedIdentifiers"),
      },
    }
  );
  try {
    await client.start();
  } catch (error) {
    vscode.window.showErrorMessage(
      `${settings.get("command").join(" ")} does not start: ${error.message}. ` +
        "Install it by pip install 'sparkcep[lsp]', or write its path into the setting sparkcep.command."
    );
  }
}

async function restart(event) {
  if (event.affectsConfiguration("sparkcep")) {
    await deactivate();
    await start();
  }
}

async function activate(context) {
  context.subscriptions.push(vscode.workspace.onDidChangeConfiguration(restart));
  await start();
}

function deactivate() {
  return client && client.isRunning() ? client.stop() : undefined;
}

module.exports = { activate, deactivate };
