# The environment reaches programs.
export COLOUR=green
sh -c 'echo $COLOUR'
env -i ONLY=this env
COLOUR=red sh -c 'echo $COLOUR'; echo $COLOUR
echo "$HOME $USER $PATH"
big=$(seq 1 3000); export big; sh -c 'echo ${#big}'
