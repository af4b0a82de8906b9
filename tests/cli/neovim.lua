-- The language server in Neovim 0.11 or newer, without a screen and with the settings of docs/editors.md:
--   nvim --headless -u NONE -l tests/cli/neovim.lua
-- It writes a file with an error, corrects it by the quick fix, renames a variable and formats, as a user would. It ends with an
-- error if a step does not work. `sparkcep` must be on the PATH.
local folder = vim.fn.tempname()
vim.fn.mkdir(folder)
vim.fn.writefile({ '{"ticks": ["symbol", "day", "price"]}' }, folder .. "/sparkcep.columns.json")
vim.fn.writefile({
  "SELECT low FROM ticks MATCH_RECOGNIZE (",
  "  PARTITION BY symbol ORDER BY day",
  "  MEASURES LAST(DOWN.price) AS low",
  "  PATERN (STRT DOWN+ UP)",
  "  define DOWN as price < PREV(price), UP as price > PREV(price)",
  ")",
}, folder .. "/query.sql")
vim.lsp.config("sparkcep", {
  cmd = { "sparkcep", "lsp" },
  filetypes = { "sql", "python" },
  root_markers = { "dbt_project.yml", "sparkcep.columns.json", ".git" },
})
vim.lsp.enable("sparkcep")
vim.cmd("filetype on | edit " .. folder .. "/query.sql")

local function line(number) return vim.api.nvim_buf_get_lines(0, number - 1, number, false)[1] end
local function until_true(what, condition)
  assert(vim.wait(30000, condition, 20), what)
  print("ok: " .. what)
end
local function codes() return table.concat(vim.tbl_map(function(found) return found.code end, vim.diagnostic.get(0)), " ") end
local function ask(method, row, column)
  local client = vim.lsp.get_clients({ name = "sparkcep" })[1]
  vim.api.nvim_win_set_cursor(0, { row, column })
  local answer = assert(client:request_sync(method, vim.lsp.util.make_position_params(0, client.offset_encoding), 30000, 0))
  assert(not answer.err, vim.inspect(answer.err))
  return answer.result
end

until_true("an error has a diagnostic", function() return codes() == "SPARKCEP.SYNTAX" end)
vim.api.nvim_win_set_cursor(0, { 4, 3 })
vim.lsp.buf.code_action({ apply = true, filter = function(action) return action.title == "Replace PATERN by PATTERN" end })
until_true("the quick fix corrects it", function() return line(4) == "  PATTERN (STRT DOWN+ UP)" and codes() == "ANY_ROW" end)
until_true("hover shows the condition", function() return ask("textDocument/hover", 4, 17).contents.value:find("price < PREV", 1, true) ~= nil end)
until_true("the definition is in DEFINE", function() return ask("textDocument/definition", 4, 17).range.start.line == 4 end)
until_true("completion has the column", function() return ask("textDocument/completion", 5, 19).items[1].label == "price" end)
vim.api.nvim_win_set_cursor(0, { 4, 17 })
vim.lsp.buf.rename("FALL")
until_true("rename changes all places", function() return line(3):find("LAST(FALL.price)", 1, true) and line(5):find("define FALL as", 1, true) end)
vim.lsp.buf.format({ async = false, timeout_ms = 30000 })
until_true("the clause is formatted", function() return line(5) == "  DEFINE FALL AS price < PREV(price), UP AS price > PREV(price)" end)
vim.cmd("qa!")
