# The git commands that three tasks cannot do without, one after the other. With `whole`: also the trees of
# the planner and of the reviewers, and the checkout that follows each merge.
set -eu
cd "$1"
whole=${2:-}
export GIT_AUTHOR_NAME=DevLoop GIT_AUTHOR_EMAIL=devloop@localhost
export GIT_COMMITTER_NAME=DevLoop GIT_COMMITTER_EMAIL=devloop@localhost
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
trees=.devloop/worktrees
base=$(git rev-parse refs/heads/work)
[ -z "$whole" ] || git worktree add --quiet --detach "$trees/plan" "$base"
for task in one two three; do
  git worktree add --quiet -b "devloop/$task" "$trees/$task" "$base"
  mkdir "$trees/$task/$task"
  printf 'one\ntwo\nthree\n' >"$trees/$task/$task/text.txt"
  git -C "$trees/$task" add --all .
  git -C "$trees/$task" commit --quiet -m "$task"
  head=$(git rev-parse "refs/heads/devloop/$task")
  [ -z "$whole" ] || git worktree add --quiet --detach "$trees/review-$task" "$head"
  git diff "$base...$head" >/dev/null
  tip=$(git rev-parse refs/heads/work)
  tree=$(git merge-tree --write-tree "$tip" "$head")
  merge=$(printf 'merge %s\n' "$task" | git commit-tree "$tree" -p "$tip" -p "$head")
  git update-ref refs/heads/work "$merge" "$tip"
  [ -z "$whole" ] || git read-tree -m -u "$tip" "$merge"
done
